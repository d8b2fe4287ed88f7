package main

import (
	"context"
	"flag"

	"parley/cmd/parley/node"
	"parley/httpedge"
)

// routes prints the route table with each route's position in the code.
func routes(_ context.Context, args []string, s surroundings) int {
	flags := flag.NewFlagSet("routes", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print JSON")
	if _, err := parse(flags, args, s, operands{}); err != nil {
		return ended(s, err)
	}
	return ended(s, httpedge.WriteRoutes(s.stdout, node.Surfaces(), httpedge.RouteTable{Source: true, JSON: *asJSON}))
}
