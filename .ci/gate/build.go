package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// gate is one run of the tests.
type gate struct {
	out      io.Writer
	dir      string         // of binaries and logs
	only     *regexp.Regexp // of top-level tests; nil = all
	tier     string         // "3", "1234"; empty = all
	again    int
	flaky    int
	inMemory bool   // where tests keep what they write
	test2    string // the command that reads the output of a test binary
	outcomes []outcome
	printing sync.Mutex
}

// unit is what one process of a test binary runs.
type unit struct {
	tier    string
	pkg     string   // import path
	dir     string   // in which its tests expect to run
	binary  string   // absolute
	tests   []string // top-level names; empty = all
	timeout string
	beside  int // tests that may run side by side; 0 = one for each processor
}

type goPackage struct {
	Dir, ImportPath           string
	TestGoFiles, XTestGoFiles []string
}

// Time-outs end a test that hangs. They are several times what the slowest package needs beside three busy loops.
const (
	timeout     = "20m"
	longTimeout = "45m"
)

// prepare builds every binary that the tests need: their own, and the commands that they start.
func (g *gate) prepare(ctx context.Context, patterns []string) ([]unit, error) {
	var err error
	if g.dir, err = filepath.Abs(g.dir); err != nil {
		return nil, err
	}
	if err = os.RemoveAll(g.dir); err != nil {
		return nil, err
	}
	if err = os.MkdirAll(g.logs(), 0o750); err != nil {
		return nil, err
	}
	packages, err := list(ctx, patterns)
	if err != nil {
		return nil, err
	}
	if err = g.buildTests(ctx, packages); err != nil {
		return nil, err
	}
	tool, err := output(ctx, "go", "tool", "-n", "test2json") // -n builds it, too
	if err != nil {
		return nil, err
	}
	g.test2 = strings.TrimSpace(tool)
	if err = g.buildCommands(ctx, packages); err != nil {
		return nil, err
	}
	return g.units(packages)
}

// units are the processes of tests to run, those of the longest packages first.
func (g *gate) units(packages []goPackage) ([]unit, error) {
	var units []unit
	for _, p := range packages {
		byTier, err := split(p.ImportPath, p.Dir, slices.Concat(p.TestGoFiles, p.XTestGoFiles))
		if err != nil {
			return nil, err
		}
		for at, tests := range byTier {
			asked := tests
			if g.only != nil {
				asked = slices.DeleteFunc(tests, func(name string) bool { return !g.only.MatchString(name) })
			}
			if len(tests) > 0 && len(asked) == 0 {
				continue
			}
			u := unit{tier: at, pkg: p.ImportPath, dir: p.Dir, binary: g.binary(p.ImportPath), tests: asked, timeout: timeout}
			if p.ImportPath == processPackage {
				u.timeout = longTimeout
			}
			units = append(units, u)
		}
	}
	first := longest()
	place := func(u unit) int {
		if at := slices.Index(first, u.pkg); at >= 0 {
			return at
		}
		return len(first)
	}
	slices.SortFunc(units, func(a, b unit) int { return cmp.Or(cmp.Compare(place(a), place(b)), strings.Compare(a.pkg, b.pkg)) })
	return units, nil
}

func (g *gate) logs() string { return filepath.Join(g.dir, "logs") }

// binary is where the test binary of a package stands.
func (g *gate) binary(importPath string) string {
	return filepath.Join(g.dir, "tests", strings.ReplaceAll(importPath, "/", "."), filepath.Base(importPath)+".test")
}

func list(ctx context.Context, patterns []string) ([]goPackage, error) {
	text, err := output(ctx, "go", append([]string{"list", "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	var tested []goPackage
	for decoder := json.NewDecoder(strings.NewReader(text)); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return tested, nil
		}
		if err != nil {
			return nil, err
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
			tested = append(tested, p)
		}
	}
}

// buildTests builds the test binaries, all at once but for packages of the same last name: the go command names binaries by it.
func (g *gate) buildTests(ctx context.Context, packages []goPackage) error {
	for left := packages; len(left) > 0; {
		var batch, later []goPackage
		taken := make(map[string]bool)
		for _, p := range left {
			if base := filepath.Base(p.ImportPath); taken[base] {
				later = append(later, p)
			} else {
				taken[base] = true
				batch = append(batch, p)
			}
		}
		folder := filepath.Join(g.dir, "batch")
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return err
		}
		// Binaries without symbols are linked in half the time; stack traces do not need them.
		args := []string{"test", "-c", "-ldflags=-s -w", "-o", folder + string(filepath.Separator)}
		for _, p := range batch {
			args = append(args, p.ImportPath)
		}
		if _, err := output(ctx, "go", args...); err != nil {
			return err
		}
		for _, p := range batch {
			to := g.binary(p.ImportPath)
			if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
				return err
			}
			if err := os.Rename(filepath.Join(folder, filepath.Base(to)), to); err != nil {
				return err
			}
		}
		left = later
	}
	return nil
}

// builtEnv names the folder in which the tests of processPackage find the commands that they start. Without it they build them.
const builtEnv = "GATE_BUILT"

// logsEnv names the folder in which tests keep the logs of processes.
const logsEnv = "GATE_LOGS"

func (g *gate) environment() []string {
	return append(os.Environ(), builtEnv+"="+filepath.Join(g.dir, "commands"), logsEnv+"="+g.logs())
}

// buildCommands has the tests of processPackage build what they start, by the test that is there for it.
func (g *gate) buildCommands(ctx context.Context, packages []goPackage) error {
	for _, p := range packages {
		if p.ImportPath != processPackage {
			continue
		}
		if err := os.MkdirAll(filepath.Join(g.dir, "commands"), 0o750); err != nil {
			return err
		}
		command := exec.CommandContext(ctx, g.binary(p.ImportPath), "-test.run=^TestCommandsAreBuilt$", "-test.timeout="+timeout)
		command.Dir, command.Env = p.Dir, g.environment()
		if said, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("build the commands of the tests: %w\n%s", err, said)
		}
	}
	return nil
}

// output runs a command. What it says is part of the error when it fails.
func output(ctx context.Context, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	var out, said bytes.Buffer
	command.Stdout, command.Stderr = &out, &said
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("%s %.200s: %w\n%s%s", name, strings.Join(args, " "), err, out.String(), said.String())
	}
	return out.String(), nil
}
