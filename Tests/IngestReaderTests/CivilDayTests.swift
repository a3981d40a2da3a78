import Foundation
import IngestReader
import Testing

@Suite struct CivilDayTests {
    @Test("Dates are those of Foundation's calendar over four hundred years")
    func datesAgreeWithFoundation() throws {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = try #require(TimeZone(identifier: "UTC"))
        let start = try #require(CivilDay("1890-01-01")).dayNumber
        let end = try #require(CivilDay("2290-01-01")).dayNumber
        #expect(end - start == 146_097)
        var differences = 0
        for dayNumber in start...end {
            let date = Date(timeIntervalSince1970: Double(dayNumber) * 86_400)
            let expected = calendar.dateComponents([.year, .month, .day], from: date)
            let found = CivilDay(dayNumber: dayNumber).components
            if found.year != expected.year || found.month != expected.month
                || found.day != expected.day
            {
                differences += 1
            }
        }
        #expect(differences == 0)
    }

    @Test("A date goes to its day number and back")
    func datesRoundTrip() {
        for dayNumber in stride(from: Int32(-719_528), through: 2_932_896, by: 97) {
            let day = CivilDay(dayNumber: dayNumber)
            #expect(CivilDay(day.description) == day)
        }
        #expect(CivilDay("1970-01-01")?.dayNumber == 0)
        #expect(CivilDay("2019-11-24")?.dayNumber == 18_224)
        #expect(CivilDay("0000-01-01")?.dayNumber == -719_528)
        #expect(CivilDay("9999-12-31")?.dayNumber == 2_932_896)
    }

    @Test(
        "What is no date of the form YYYY-MM-DD is refused",
        arguments: [
            "", "2020-02-30", "2019-02-29", "1900-02-29", "2020-13-01", "2020-00-01", "2020-01-00",
            "2020-01-32", "2020-1-1", "2020/01/01", "+020-01-01", "-020-01-01", "2020-01-01 ",
            " 2020-01-01", "20200101", "2020-01-0a", "２０２０-01-01",
        ])
    func refusesOtherText(text: String) {
        #expect(CivilDay(text) == nil)
    }

    @Test(
        "Leap days of leap years are dates", arguments: ["2000-02-29", "2020-02-29", "2400-02-29"])
    func acceptsLeapDays(text: String) {
        #expect(CivilDay(text)?.description == text)
    }

    @Test("Any stored day number has a date, and nothing traps")
    func extremes() {
        #expect(CivilDay(dayNumber: .min).description == "-5877641-06-23")
        #expect(CivilDay(dayNumber: .max).description == "5881580-07-11")
    }
}
