package main

import (
	"fmt"
	"io"
	"strings"

	"parley/cmd/parley/config"
	"parley/cmd/parley/node"
)

// writeBanner tells a person at a terminal where to click and what to curl. Programs read the log, or /readyz.
func writeBanner(w io.Writer, c *config.Config, n *node.Node) {
	at := "http://" + n.Addr().String()
	api := at + strings.TrimSuffix(c.HTTP.BasePath, "/")
	fmt.Fprintf(w, "\nParley is ready.\n\n")
	if c.HTTP.Page {
		fmt.Fprintf(w, "  Chat      %s/\n", at)
		if c.BuiltinAssistant && len(c.Agents) == 0 {
			fmt.Fprintf(w, "            agent Demo: approvals, questions, a tool of your browser, files, budgets\n")
		}
	}
	if c.HTTP.Docs {
		fmt.Fprintf(w, "  API       %s/docs\n", api)
	}
	fmt.Fprintf(w, "  Metrics   http://%s/metrics\n  Data      %s\n", n.OpsAddr(), c.DataDir)
	fmt.Fprintf(w, `
Try it from another terminal:

  curl -s %[1]s/agents
  ID=$(curl -s -X POST %[1]s/conversations -d '{"agentId":"assistant","userId":"ada"}' | sed 's/.*"id":"\(conv_[^"]*\)".*/\1/')
  curl -sN -X POST %[1]s/conversations/$ID/messages -d '{"message":"Hello!","stream":true}'
  curl -sN %[1]s/conversations/$ID/events/stream

Ctrl-C stops it gracefully.

`, api)
}

// writeFirstToken shows the API token that the first start has made. It is shown this once.
func writeFirstToken(w io.Writer, c *config.Config, n *node.Node, token string) {
	fmt.Fprintf(w, `
The first API token, shown this once (parley token create makes others):

  export TOKEN=%[1]s
  curl -s -H "Authorization: Bearer $TOKEN" http://%[2]s%[3]s/agents
  curl -s -H "Authorization: Bearer $TOKEN" http://%[2]s%[3]s/agents/responses -d '{"model":"assistant","input":"Hello!"}'

`, token, n.Addr(), c.Client.BasePath)
}
