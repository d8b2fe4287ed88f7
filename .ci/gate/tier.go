package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// tier is a kind of tests that run together.
type tier struct {
	name   string
	what   string
	atOnce int // units that run side by side
	beside int // tests of one unit that may run side by side, where they say that they can; 0 = one for each processor
}

const (
	inProcess = "tier 1"
	nodes     = "tier 2"
	processes = "tier 3"
	browsers  = "tier 4"
	machines  = "tier 5"
)

// tiers are in the order in which they run.
func tiers() []tier {
	return []tier{
		{inProcess, "rules and packages, in process", 5, 0},           // two at once keep two processors 58 % busy
		{nodes, "whole nodes and clusters in one process", 4, 8},      // they wait for elections and timers: two of two at once keep two processors 41 % busy
		{processes, "real processes, and clients over sockets", 1, 8}, // they mostly wait: five at once keep two processors 41 % busy
		{browsers, "browsers", 1, 3},
		{machines, "networks that are cut, disks that are slow or full, releases side by side", 1, 8}, // six at once: 52 %
	}
}

// processPackage is the one whose tests are told apart by the ends of their files' names.
const processPackage = "parley/cmd/parley"

// tierOf returns the tier of the tests in a file of a package.
func tierOf(importPath, file string) string {
	if importPath == processPackage {
		switch { // a system's name may follow
		case strings.Contains(file, "_browser_"):
			return browsers
		case strings.Contains(file, "_machine_"):
			return machines
		default:
			return processes
		}
	}
	if slices.Contains(nodePackages(), importPath) {
		return nodes
	}
	return inProcess
}

// nodePackages are those whose tests are whole nodes or the network between them, in real time, the longest first.
func nodePackages() []string {
	return []string{
		"parley/cmd/parley/node", "parley/persistence", "parley/cluster/peer", "parley/persistence/replica", "parley/bench",
		"parley/cluster/placement", "parley/cluster/membership", "parley/bench/nodes",
	}
}

// longest are the packages that run first in their tiers, so that none of them is left for the end, alone.
func longest() []string {
	return append(nodePackages(), "parley/httpedge/sse", "parley/actors", "parley/httpedge/clientapi", "parley/cmd/parley/config", "parley/httpedge")
}

// split sorts a package's tests by tier. Where all of them are in one, the list of names is empty: the binary runs whatever it has, and
// a TestMain that counts what was tested sees that nothing was left out.
func split(importPath, dir string, files []string) (map[string][]string, error) {
	byTier := make(map[string][]string)
	for _, name := range files {
		tests, err := testsIn(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if len(tests) > 0 {
			at := tierOf(importPath, name)
			byTier[at] = append(byTier[at], tests...)
		}
	}
	if len(byTier) == 1 {
		for at := range byTier {
			byTier[at] = nil
		}
	}
	return byTier, nil
}

// testsIn lists the functions of a file that the test binary runs without flags: tests, examples and the seeds of fuzz tests.
func testsIn(path string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range file.Decls {
		function, is := d.(*ast.FuncDecl)
		if !is || function.Recv != nil || function.Name.Name == "TestMain" {
			continue
		}
		for _, kind := range []string{"Test", "Example", "Fuzz"} {
			if rest, has := strings.CutPrefix(function.Name.Name, kind); has && (rest == "" || strings.ToUpper(rest[:1]) == rest[:1]) {
				names = append(names, function.Name.Name)
			}
		}
	}
	return names, nil
}
