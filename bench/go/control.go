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

// usage is what probe.ts reports for servers on Node.
type usage struct {
	CPUMs    float64 `json:"cpuMs"`
	RSSBytes int     `json:"rssBytes"`
}

// serveUsage reports usage over the IPC channel of Node's child_process, which is JSON lines on a socket. The process exits
// when the channel is closed, so that it does not outlive the benchmark.
func serveUsage() {
	descriptor, err := strconv.Atoi(os.Getenv("NODE_CHANNEL_FD"))
	if err != nil {
		fail(err)
	}
	channel := os.NewFile(uintptr(descriptor), "ipc")
	lines := bufio.NewScanner(channel)
	replies := json.NewEncoder(channel)
	for lines.Scan() {
		if lines.Text() == `"collect"` {
			runtime.GC()
			debug.FreeOSMemory()
		}
		if err := replies.Encode(readUsage()); err != nil {
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

// residentBytes returns 0 on systems without proc(5).
func residentBytes() int {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(statm))
	pages, _ := strconv.Atoi(fields[1])
	return pages * os.Getpagesize()
}
