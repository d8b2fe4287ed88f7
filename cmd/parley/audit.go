package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"

	"parley/actors/core/audit"
)

const auditUsage = "usage: parley audit verify [--tenant id | --file export.jsonl] [--seen seq:hash]\n"

// auditCommand checks the chain of a tenant's audit trail, at a running cluster or in a file that was exported.
func auditCommand(ctx context.Context, args []string, s surroundings) int {
	if len(args) > 0 && asksHelp(args[0]) {
		fmt.Fprint(s.stdout, auditUsage)
		return exitOK
	}
	if len(args) == 0 || args[0] != "verify" {
		fmt.Fprint(s.stderr, auditUsage)
		return exitUsage
	}
	flags := flag.NewFlagSet("audit verify", flag.ContinueOnError)
	tenant := flags.String("tenant", "default", "`id` of the tenant")
	file := flags.String("file", "", "check this export instead of a running cluster; - is the standard input")
	seen := flags.String("seen", "", "`seq:hash` of a row, as printed by an earlier check: the chain must continue it")
	o := operatorFlags(flags)
	if _, err := parse(flags, args[1:], s, operands{}); err != nil {
		return ended(s, err)
	}
	anchor, err := anchorOf(*seen)
	if err != nil {
		fmt.Fprintln(s.stderr, err)
		return exitUsage
	}
	rows, err := auditRows(ctx, o, *tenant, *file)
	if err != nil {
		return finish(s, err)
	}
	found, err := audit.Verify(rows, anchor)
	if err = errors.Join(err, rows.Close()); err != nil {
		return finish(s, fmt.Errorf("the audit trail is not whole: %w", err))
	}
	fmt.Fprintf(s.stdout, "tenant %s: rows %d to %d form a whole chain\nseen %d:%s\n", found.TenantID, found.First, found.Number, found.Number, found.Hash)
	return exitOK
}

func auditRows(ctx context.Context, o *operator, tenant, file string) (io.ReadCloser, error) {
	switch file {
	case "":
		return o.call(ctx, "GET", "/v1/tenants/"+url.PathEscape(tenant)+"/audit")
	case "-":
		return io.NopCloser(os.Stdin), nil
	}
	return os.Open(file)
}

// anchorOf reads a number and a hash; nothing for nothing.
func anchorOf(seen string) (map[uint64]string, error) {
	if seen == "" {
		return nil, nil //nolint:nilnil // nothing was seen
	}
	number, hash, ok := strings.Cut(seen, ":")
	at, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil || hash == "" {
		return nil, errors.New("--seen: seq:hash as an earlier check printed it")
	}
	return map[uint64]string{at: hash}, nil
}
