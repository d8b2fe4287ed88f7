package main

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"parley/cluster/certs"
)

// makeCerts makes a certificate authority and node certificates for development.
func makeCerts(_ context.Context, args []string, s surroundings) int {
	flags := flag.NewFlagSet("certs", flag.ContinueOnError)
	dir := flags.String("dir", "parley-certs", "`DIRECTORY` to write to; what is there is kept, and used to sign")
	hosts := flags.String("hosts", "", "addresses and names that the certificates carry besides, as `A,B`")
	validity := flags.Duration("validity", 365*24*time.Hour, "how long the certificates are valid")
	names, err := parse(flags, args, s, operands{"NODE...", 1, 1000})
	if err != nil {
		return ended(s, err)
	}
	var besides []string
	for host := range strings.SplitSeq(*hosts, ",") {
		if host != "" {
			besides = append(besides, host)
		}
	}
	if err := certs.Write(*dir, names, besides, *validity); err != nil {
		return ended(s, err)
	}
	at := func(name string) string { return filepath.Join(*dir, name) }
	fmt.Fprintf(s.stdout, "Made for development. Keep %s to yourself: it signs.\n\n", at(certs.AuthorityKeyFile))
	for _, name := range names {
		fmt.Fprintf(s.stdout, "  %s: --cluster-tls-cert=%s --cluster-tls-key=%s --cluster-tls-ca=%s --cluster-gossip-key-file=%s\n",
			name, at(name+".pem"), at(name+"-key.pem"), at(certs.AuthorityFile), at(certs.GossipKeyFile))
	}
	return exitOK
}
