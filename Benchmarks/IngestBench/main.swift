commitBenchmark()
