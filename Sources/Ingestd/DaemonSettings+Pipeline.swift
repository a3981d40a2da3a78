import IngestPipeline

extension DaemonSettings {
    var repeatPolicy: RepeatPolicy {
        RepeatPolicy(
            windowMicroseconds: Int64(dedupWindowSeconds) * 1_000_000,
            keyCountMax: dedupKeyCountMax, refusesOutsideWindow: outsideDedupWindow == .refuse,
            leadMicroseconds: Int64(eventLeadSecondsMax) * 1_000_000)
    }

    /// The part of the settings that the pipeline is made with, in its units.
    var pipelineConfiguration: PipelineConfiguration {
        var configuration = PipelineConfiguration()
        configuration.policy = AdmissionPolicy(
            ageMicrosecondsMax: eventAgeSecondsMax == 0
                ? nil : Int64(eventAgeSecondsMax) * 1_000_000,
            leadMicrosecondsMax: Int64(eventLeadSecondsMax) * 1_000_000,
            countsUndetermined: countsUndetermined, countsConsentNotSet: countsConsentNotSet)
        configuration.calendar = zone.calendar
        configuration.segmentByteCountMax = segmentByteCountMax
        configuration.commitIntervalNanoseconds = UInt64(commitIntervalMilliseconds) * 1_000_000
        configuration.compactIntervalNanoseconds = UInt64(compactIntervalSeconds) * 1_000_000_000
        configuration.retention = RetentionPolicy(
            dayCountMax: retentionDayCount, byteCountMax: UInt64(retentionByteCount))
        return configuration
    }
}
