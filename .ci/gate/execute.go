package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// event is a line of test2json (go doc test2json).
type event struct {
	Action, Test, Output string
	Elapsed              float64
}

// result is a top-level test, with its subtests' output.
type result struct {
	unit    unit
	name    string
	status  string // pass, fail, skip; "" = it did not end
	elapsed time.Duration
	output  string
}

// outcome is what a process of a test binary came to.
type outcome struct {
	unit    unit
	err     error // how the process ended, when it did not end well
	elapsed time.Duration
	results []result
	said    string // outside tests: panics, leaks, what TestMain prints
}

// failed reports whether the process did not end well, or a test did not.
func (o outcome) failed() bool {
	return o.err != nil || slices.ContainsFunc(o.results, func(r result) bool { return r.status == "fail" || r.status == "" })
}

// execute runs a unit's tests.
func (g *gate) execute(ctx context.Context, u unit) outcome {
	args := []string{"-t", "-p", u.pkg, u.binary, "-test.v=test2json", "-test.paniconexit0", "-test.timeout=" + u.timeout}
	if u.beside > 0 {
		args = append(args, "-test.parallel="+strconv.Itoa(u.beside))
	}
	switch {
	case len(u.tests) > 0:
		args = append(args, "-test.run=^("+strings.Join(u.tests, "|")+")$")
	case g.only != nil:
		args = append(args, "-test.run="+g.only.String())
	}
	command := exec.CommandContext(ctx, g.test2, args...)
	command.Dir, command.Env = u.dir, g.environment()
	if folder := g.scratch(u.tier); folder != "" {
		defer os.RemoveAll(folder) //nolint:errcheck // what tests that were cut off have left; it is gone with the memory
		command.Env = append(command.Env, "TMPDIR="+folder)
	}
	command.WaitDelay = 10 * time.Second // for what a test has started and left, which holds the pipe
	from, to := io.Pipe()
	command.Stdout, command.Stderr = to, to
	began, collected := time.Now(), make(chan outcome)
	go func() { collected <- read(u, from, g.printFailure) }()
	err := command.Run()
	_ = to.Close() // as it does
	o := <-collected
	o.err, o.elapsed = err, time.Since(began)
	return o
}

// read collects the events of a process until its output ends. failed hears of a top-level test as soon as it has.
func read(u unit, from io.Reader, failed func(result)) outcome {
	o := outcome{unit: u}
	var said strings.Builder
	outputs := make(map[string][]line)
	at := make(map[string]int)
	lines := bufio.NewReader(from)
	for {
		text, err := lines.ReadBytes('\n')
		var e event
		if len(text) > 0 && json.Unmarshal(text, &e) != nil {
			said.Write(text) // the binary's standard error
		}
		name, _, sub := strings.Cut(e.Test, "/")
		switch {
		case e.Test == "":
			said.WriteString(e.Output)
		case e.Action == "run" && !sub:
			at[name] = len(o.results)
			o.results = append(o.results, result{unit: u, name: name})
		case e.Action == "output":
			outputs[name] = append(outputs[name], line{e.Test, e.Output})
		case sub && e.Action == "pass": // what is printed are the words of those that failed
			outputs[name] = slices.DeleteFunc(outputs[name], func(l line) bool { return l.test == e.Test })
		case (e.Action == "pass" || e.Action == "fail" || e.Action == "skip") && !sub && len(o.results) > 0:
			r := &o.results[at[name]]
			r.status, r.elapsed, r.output = e.Action, time.Duration(e.Elapsed*float64(time.Second)), joined(outputs[name])
			delete(outputs, name)
			if r.status == "fail" {
				failed(*r)
			}
		}
		if err != nil { // io.EOF: the pipe has no other
			break
		}
	}
	for i := range o.results {
		if r := &o.results[i]; r.status == "" { // the process ended in it
			r.output = joined(outputs[r.name])
			failed(*r)
		}
	}
	o.said = said.String()
	return o
}

// line is what a test or subtest printed.
type line struct{ test, text string }

func joined(lines []line) string {
	var text strings.Builder
	for _, l := range lines {
		text.WriteString(l.text)
	}
	return text.String()
}

// definite is the output of failures that are a defect however rarely they show: they are never run again.
var definite = regexp.MustCompile(`(?m)^(panic: |fatal error: |WARNING: DATA RACE)|found unexpected goroutines|\[rapid\] (failed|panic)|-rewrite\b|Failing input written to`)

// rerun returns the tests that failed and may be tried again; final says why the process's failure stands as it is, "" when it does not.
func (o outcome) rerun() (tests []result, final string) {
	for _, r := range o.results {
		switch {
		case r.status == "pass" || r.status == "skip":
		case definite.MatchString(r.output):
			return nil, r.name + ": a panic, a race, a leak, a golden file or a property is never run again"
		case !strings.Contains(r.output, "--- FAIL: "+r.name+" ("): // test2json says that it failed, the test itself does not
			return nil, r.name + ": the process ended in it, so the tests behind it did not run"
		default:
			tests = append(tests, r)
		}
	}
	var exit *exec.ExitError
	switch {
	case o.err == nil:
		return tests, ""
	case definite.MatchString(o.said):
		return nil, "a panic, a race or a leak is never run again"
	case !errors.As(o.err, &exit):
		return nil, o.err.Error()
	case len(tests) == 0:
		return nil, "the process failed, but none of its tests"
	default:
		return tests, ""
	}
}
