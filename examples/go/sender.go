// Sends JSON events, the lines of its input, to ingestd over UDP until all of them are on its disk: the small sender
// of docs/protocol.md, which also tags its packets if it is given a key.
//
//	go run sender.go HOST:PORT [SENDER_ID [KEY_ID KEY_HEX]] < events.ndjson
package main

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"net"
	"os"
	"strings"
	"time"
)

const (
	headerSize, tagSize = 40, 16
	ackSize             = 80                            // without tag: what is smaller gets none
	payloadSizeMax      = 1_372 - headerSize - tagSize  // of several lines
	lineSizeMax         = 65_507 - headerSize - tagSize // of one alone
	inFlightMax         = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type packet struct {
	bytes []byte
	due   time.Time
	wait  time.Duration // after that
}

// Sender keeps what is not acked. One goroutine owns it.
type Sender struct {
	network         net.Conn
	id, epoch, next uint64
	keyID           uint16
	key             []byte
	unacked         map[uint64]*packet
	refusals        int // answers with status 3 to 6 since the last with 0
}

// Run sends the lines that come, and returns when there are no more and all of them are durable.
func (s *Sender) Run(lines <-chan []byte) error {
	acks, ticks, batch := make(chan []byte), time.NewTicker(20*time.Millisecond), []byte(nil)
	go s.listen(acks)
	for lines != nil || len(batch) > 0 || len(s.unacked) > 0 {
		input, line, isDue, hasRoom := lines, []byte(nil), false, len(s.unacked) < inFlightMax
		if !hasRoom {
			input = nil // waits
		}
		select {
		case next, more := <-input:
			if line = next; !more {
				lines = nil
			}
		case ack := <-acks:
			if err := s.take(ack); err != nil {
				return err
			}
		case <-ticks.C:
			isDue = true
		}
		if hasRoom && len(batch) > 0 && (isDue || len(batch)+len(line) > payloadSizeMax) {
			s.unacked[s.next] = &packet{s.packet(s.next, batch), time.Time{}, time.Second}
			s.next, batch = s.next+1, nil
		}
		batch = append(batch, line...)
		s.transmit(time.Now())
	}
	return nil
}

func (s *Sender) listen(acks chan<- []byte) {
	for {
		ack := make([]byte, 65_536)
		if count, err := s.network.Read(ack); err == nil {
			acks <- ack[:count]
		} // else nobody listens there: it may be starting again
	}
}

// transmit sends what is due. A call that fails is as if the packet had been lost.
func (s *Sender) transmit(now time.Time) {
	for sequence, packet := range s.unacked {
		if !packet.due.After(now) {
			s.network.Write(packet.bytes)
			packet.due = now.Add(packet.wait)
			if packet.wait == 4*time.Second {
				log.Printf("packet %d was sent three times, and is not acked", sequence)
			}
			if packet.wait < 8*time.Second {
				packet.wait *= 2
			}
		}
	}
}

// packet makes the bytes of a packet, which are the same whenever it is sent.
func (s *Sender) packet(sequence uint64, lines []byte) []byte {
	for len(lines) < ackSize-headerSize {
		lines = append(lines, ' ')
	}
	made := bytes.NewBuffer([]byte("IGD1\x03\x01")) // kind 3, ack wanted
	if s.key != nil {
		made.Bytes()[5] |= 2 // tagged
	}
	for _, field := range []any{s.keyID, s.id, s.epoch, sequence, uint32(len(lines))} {
		binary.Write(made, binary.LittleEndian, field)
	}
	binary.Write(made, binary.LittleEndian, checksum(made.Bytes(), lines))
	made.Write(lines)
	return append(made.Bytes(), s.tag(made.Bytes())...)
}

func checksum(head, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
}

// tag is empty without a key.
func (s *Sender) tag(bytes []byte) []byte {
	if s.key == nil {
		return nil
	}
	mac := hmac.New(sha256.New, s.key)
	mac.Write(bytes)
	return mac.Sum(nil)[:tagSize]
}

// take believes an ack of this sender, and forgets what is durable.
func (s *Sender) take(ack []byte) error {
	read, end := binary.LittleEndian, len(ack)-len(s.tag(nil))
	if end < ackSize || string(ack[:5]) != "IGD1\x81" || read.Uint16(ack[6:]) != s.keyID ||
		read.Uint64(ack[8:]) != s.id || read.Uint32(ack[36:]) != checksum(ack[:36], ack[headerSize:end]) ||
		!hmac.Equal(s.tag(ack[:end]), ack[end:]) {
		return nil
	}
	epoch, floor := read.Uint64(ack[16:]), read.Uint64(ack[24:])
	bitmap, status := read.Uint64(ack[40:]), read.Uint32(ack[52:])
	if epoch != s.epoch && (status != 3 || epoch < s.epoch) || status == 1 || status == 2 || status > 6 {
		return nil // 3 may name a later start
	} else if status == 0 {
		s.refusals = 0
		for sequence := range s.unacked {
			if sequence < floor || bitmap>>(sequence-floor)&1 == 1 {
				delete(s.unacked, sequence)
			}
		}
	} else if s.refusals++; s.refusals == 2 {
		return fmt.Errorf("status %d: stopped, with %d packets not acked", status, len(s.unacked))
	}
	return nil
}

func run(arguments []string) (err error) {
	var random struct{ ID, Epoch uint64 }
	if err := binary.Read(rand.Reader, binary.LittleEndian, &random); err != nil {
		return err
	}
	epoch := uint64(time.Now().UnixMilli())<<20 | random.Epoch>>44
	to, s := "", Sender{id: random.ID | 1, epoch: epoch, unacked: map[uint64]*packet{}}
	count, _ := fmt.Sscanf(strings.Join(arguments, " "), "%s %d %d %x", &to, &s.id, &s.keyID, &s.key)
	if count != len(arguments) || count == 0 || count == 3 {
		return errors.New("usage: sender HOST:PORT [SENDER_ID [KEY_ID KEY_HEX]] < EVENTS")
	} else if s.network, err = net.Dial("udp", to); err != nil {
		return err
	}
	lines, input, long, readError := make(chan []byte), bufio.NewReaderSize(os.Stdin, 1<<17), 0, error(nil)
	go func() {
		for line, isPart, wasPart := []byte(nil), false, false; readError == nil; wasPart = isPart {
			line, isPart, readError = input.ReadLine() // the parts of a line that is longer than the buffer
			if isWhole := !isPart && len(line) < lineSizeMax; readError == nil && !wasPart && isWhole {
				lines <- append(append([]byte(nil), line...), '\n')
			} else if readError == nil && !wasPart {
				long++
			}
		}
		close(lines)
	}()
	if err = s.Run(lines); err == nil && readError != io.EOF {
		err = readError
	} else if err == nil && long > 0 {
		err = fmt.Errorf("%d lines are longer than a packet takes: they were not sent", long)
	}
	return err
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatalln(err)
	}
}
