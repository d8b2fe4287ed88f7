package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// printFailure prints the first and last lines of a failed test.
func (g *gate) printFailure(r result) {
	g.printing.Lock()
	defer g.printing.Unlock()
	fmt.Fprintf(g.out, "--- FAIL: %s.%s (%.2fs)\n%s", r.unit.pkg, r.name, r.elapsed.Seconds(), ends(r.output, shownLines))
}

// printUnit prints one line for a process, as the go command does.
func (g *gate) printUnit(o outcome) {
	g.printing.Lock()
	defer g.printing.Unlock()
	word := "ok  "
	if o.failed() {
		word = "FAIL"
	}
	fmt.Fprintf(g.out, "%s\t%s\t%.3fs\n", word, o.unit.pkg, o.elapsed.Seconds())
	if o.err != nil {
		fmt.Fprintf(g.out, "%s%v\n", ends(o.said, shownLines), o.err)
	}
}

// shownLines of a failed test are enough for its words, which come first, and the ends of two processes' logs.
const shownLines = 120

func ends(text string, most int) string {
	lines := strings.SplitAfter(text, "\n")
	if cut := len(lines) - most; cut > 0 {
		return fmt.Sprintf("%s[%d lines]\n%s", strings.Join(lines[:most/2], ""), cut, strings.Join(lines[most/2+cut:], ""))
	}
	return text
}

// report prints the tests of a tier that took longest, and writes how long each took into a file.
func (g *gate) report(t tier, all []outcome) error {
	const most = 10
	var results []result
	for _, o := range all {
		results = append(results, o.results...)
	}
	slices.SortStableFunc(results, func(a, b result) int { return cmp.Compare(b.elapsed, a.elapsed) })
	var text strings.Builder
	for i, r := range results {
		line := fmt.Sprintf("   %6.1fs %s.%s\n", r.elapsed.Seconds(), strings.TrimPrefix(r.unit.pkg, "parley/"), r.name)
		text.WriteString(line)
		if i < most && r.elapsed >= time.Second {
			fmt.Fprint(g.out, line)
		}
	}
	return os.WriteFile(filepath.Join(g.dir, t.name+".txt"), []byte(text.String()), 0o600)
}

// processors is the time that the machine's processors have spent since it started, in ticks. Where that cannot be told, it is zero.
type processors struct{ busy, all uint64 }

func processorTime() processors {
	text, err := os.ReadFile("/proc/stat") // proc_stat(5): cpu user nice system idle iowait irq softirq steal
	if err != nil {
		return processors{}
	}
	var p processors
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(line) {
		if ticks, err := strconv.ParseUint(field, 10, 64); err == nil && i <= 8 { // what guests take is in "user" already
			p.all += ticks
			if i != 2 && i != 4 && i != 5 { // what is nice takes what is left over
				p.busy += ticks
			}
		}
	}
	return p
}

// since says how busy the processors were, to tell a tier that waits from one that computes.
func (p processors) since(before processors) string {
	if p.all <= before.all {
		return ""
	}
	return fmt.Sprintf(", processors %d %% busy", 100*(p.busy-before.busy)/(p.all-before.all))
}

// conclude runs again what failed, with nothing beside it, and says how all of it ended. The last line is for whoever counts.
func (g *gate) conclude(ctx context.Context, began time.Time) (bool, error) {
	var passed, skipped int
	var failed, flaky []string
	for _, o := range g.outcomes {
		for _, r := range o.results {
			switch r.status {
			case "pass":
				passed++
			case "skip":
				skipped++
				fmt.Fprintf(g.out, "skipped: %s.%s: %s\n", r.unit.pkg, r.name, reasonOf(r.output))
			}
		}
		if !o.failed() {
			continue
		}
		again, final := o.rerun()
		if final != "" {
			failed = append(failed, o.unit.pkg+": "+final)
			continue
		}
		for _, r := range again {
			if g.passesAgain(ctx, r) {
				passed++
				flaky = append(flaky, fmt.Sprintf("%s.%s (flaky)\n%s", r.unit.pkg, r.name, ends(r.output, shownLines)))
			} else {
				failed = append(failed, r.unit.pkg+"."+r.name)
			}
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
		}
	}
	for _, text := range flaky {
		fmt.Fprintf(g.out, "\n%s", text)
	}
	ok := len(failed) == 0
	if len(flaky) > g.flaky {
		ok = false
		failed = append(failed, fmt.Sprintf("%d tests passed only when they were run again, more than %d", len(flaky), g.flaky))
	}
	fmt.Fprintf(g.out, "\n%d flaky\n", len(flaky))
	for _, text := range failed {
		fmt.Fprintf(g.out, "FAIL\t%s\n", text)
	}
	fmt.Fprintf(g.out, "the tests took %s\n%d passed, %d failed, %d skipped\n", since(began), passed, len(failed), skipped)
	return ok, nil
}

// passesAgain runs one test by itself until it passes, as often as the gate allows.
func (g *gate) passesAgain(ctx context.Context, r result) bool {
	for range g.again {
		u := r.unit
		u.tests = []string{r.name}
		o := g.execute(ctx, u)
		if !o.failed() && len(o.results) > 0 {
			return true
		}
		g.printUnit(o)
		if _, final := o.rerun(); final != "" {
			return false
		}
	}
	return false
}

// reasonOf is the last line that a skipped test said.
func reasonOf(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	for _, line := range slices.Backward(lines) {
		if _, text, found := strings.Cut(line, ".go:"); found {
			return text
		}
	}
	return ""
}
