package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"parley/cmd/parley/node"
	"parley/httpedge"
)

// routes prints the route table with each route's position in the code.
func routes(_ context.Context, args []string, s surroundings) int {
	set := flag.NewFlagSet("parley routes", flag.ContinueOnError)
	set.SetOutput(s.stderr)
	set.Usage = func() { fmt.Fprintln(s.stderr, "usage: parley routes") }
	err := set.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil || set.NArg() > 0:
		set.Usage()
		return exitUsage
	}
	return finish(s, httpedge.WriteRoutes(s.stdout, node.Surfaces(), httpedge.RouteTable{Source: true}))
}
