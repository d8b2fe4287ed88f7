package main

import (
	"fmt"
	"io"
	"strings"

	"parley/cmd/parley/config"
	"parley/cmd/parley/node"
)

// writeBanner prints addresses and example commands for a person at a terminal. Programs read the log, or /readyz.
func writeBanner(w io.Writer, c *config.Config, n *node.Node) {
	at := "http://" + n.Addr().String()
	api := at + strings.TrimSuffix(c.HTTP.BasePath, "/")
	fmt.Fprintf(w, "\nParley is ready.\n\n")
	if c.HTTP.Page {
		fmt.Fprintf(w, "  Chat        %s/\n", at)
		if c.BuiltinAssistant && len(c.Agents) == 0 {
			fmt.Fprintf(w, "              agent Demo: approvals, questions, a tool of your browser, files, budgets\n")
		}
		if c.Auth.Enabled {
			fmt.Fprintf(w, "              asks for a token\n")
		}
		fmt.Fprintf(w, "  Console     %s/dashboard\n", at)
	}
	if c.HTTP.Docs {
		fmt.Fprintf(w, "  API         %s/docs\n  Client API  %s%s/docs\n", api, at, c.Client.BasePath)
	}
	fmt.Fprintf(w, "  Metrics     http://%s/metrics\n  Data        %s\n", n.OpsAddr(), c.DataDir)
	writeTrial(w, c, api)
	fmt.Fprintf(w, "Ctrl-C stops it gracefully.\n\n")
}

// writeTrial prints the commands of an example conversation, with the header that authentication requires.
func writeTrial(w io.Writer, c *config.Config, api string) {
	curl, owner := "curl -s", `,"userId":"ada"`
	fmt.Fprintf(w, "\nTry it from another terminal:\n\n")
	if c.Auth.Enabled {
		fmt.Fprintf(w, "  TOKEN=...   # %s\n", tokenHint(&c.Auth))
		curl, owner = fmt.Sprintf(`curl -s -H "%s: %s$TOKEN"`, c.Auth.HeaderName, c.Auth.TokenPrefix), ""
	}
	fmt.Fprintf(w, "  %s %s/agents\n", curl, api)
	if agent := c.FirstAgent(); agent != "" {
		fmt.Fprintf(w, `  ID=$(%[1]s %[2]s/conversations -d '{"agentId":"%[3]s"%[4]s}' | sed 's/.*"id":"\(conv_[^"]*\)".*/\1/')
  %[1]s -N %[2]s/conversations/$ID/messages -d '{"message":"Hello!","stream":true}'
  %[1]s -N %[2]s/conversations/$ID/events/stream
`, curl, api, agent, owner)
	}
	fmt.Fprintln(w)
}

// tokenHint describes where a caller's token comes from.
func tokenHint(auth *config.Auth) string {
	switch auth.Provider {
	case config.ProviderStatic:
		return "one of auth.tokens"
	case config.ProviderJWT:
		return "a JWT as auth.jwt describes it"
	default:
		return "a token that the service at auth.callout.url accepts"
	}
}

// writeFirstToken prints the API token that the first start has created. It cannot be printed again.
func writeFirstToken(w io.Writer, c *config.Config, n *node.Node, token string) {
	fmt.Fprintf(w, `
The first API token, shown this once (parley token create makes others):

  export TOKEN=%[1]s
  curl -s -H "Authorization: Bearer $TOKEN" http://%[2]s%[3]s/agents
`, token, n.Addr(), c.Client.BasePath)
	if agent := c.FirstAgent(); agent != "" {
		fmt.Fprintf(w, `  curl -s -H "Authorization: Bearer $TOKEN" http://%[1]s%[2]s/agents/responses -d '{"model":"%[3]s","input":"Hello!"}'
`, n.Addr(), c.Client.BasePath, agent)
	}
	fmt.Fprintln(w)
}
