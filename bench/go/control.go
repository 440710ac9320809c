package main

import (
	"bufio"
	"encoding/json"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Usage is what probe.ts answers for servers on Node.
type usage struct {
	CPUMs    float64 `json:"cpuMs"`
	RSSBytes int     `json:"rssBytes"`
}

// answerBenchmark answers over the IPC channel of Node's child_process, which is JSON in lines on a socket. The process
// ends with the channel, so that no server outlives the benchmark.
func answerBenchmark() {
	descriptor, err := strconv.Atoi(os.Getenv("NODE_CHANNEL_FD"))
	if err != nil {
		fail(err)
	}
	channel := os.NewFile(uintptr(descriptor), "ipc")
	lines := bufio.NewScanner(channel)
	answers := json.NewEncoder(channel)
	for lines.Scan() {
		if lines.Text() == `"collect"` {
			runtime.GC()
			debug.FreeOSMemory()
		}
		if err := answers.Encode(readUsage()); err != nil {
			fail(err)
		}
	}
	os.Exit(0)
}

func readUsage() usage {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		fail(err)
	}
	cpu := time.Duration(own.Utime.Nano() + own.Stime.Nano())
	return usage{CPUMs: float64(cpu.Microseconds()) / 1000, RSSBytes: residentBytes()}
}

// residentBytes is 0 where there is no proc(5).
func residentBytes() int {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(statm))
	pages, _ := strconv.Atoi(fields[1])
	return pages * os.Getpagesize()
}
