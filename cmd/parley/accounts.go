package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"parley/cmd/parley/config"
)

// accountCommand is the command for one kind of account: tenants, projects, users or API tokens.
type accountCommand struct {
	name, path string   // of the command, and in the paths of the operations listener
	columns    []string // of the list, by their names in JSON
	create     []field
	change     []field
	noun       string
}

// field is a flag of create or set and its name in JSON.
type field struct{ flag, key, usage string }

func tenants() accountCommand {
	return accountCommand{
		name: "tenant", path: "tenants", noun: "tenant", columns: []string{"id", "name", "slug", "tier", "requests", "createdAt"},
		create: []field{
			{"name", "name", "`name` of the organisation"},
			{"slug", "slug", "short `name`, unique; made of the name when not given"},
			{"tier", "tier", "licence: FREE (default), STARTER, PROFESSIONAL, ENTERPRISE or ON_PREMISE"},
			{"owner", "owner", "`name` of its owner; Owner when not given"},
		},
		change: []field{
			{"name", "name", "new `name`"},
			{"tier", "tier", "licence: FREE, STARTER, PROFESSIONAL, ENTERPRISE or ON_PREMISE"},
		},
	}
}

func projects() accountCommand {
	return accountCommand{
		name: "project", path: "projects", noun: "project", columns: []string{"id", "tenantId", "key", "name", "createdAt"},
		create: []field{
			{"tenant", "tenantId", "`id` of its tenant; default when not given"},
			{"key", "key", "short `name`, unique in the tenant"},
			{"name", "name", "`name` for people"},
		},
		change: []field{{"name", "name", "new `name`"}},
	}
}

func users() accountCommand {
	return accountCommand{
		name: "user", path: "users", noun: "user",
		columns: []string{"id", "tenantId", "name", "email", "role", "canLogin", "servicePermissions", "createdAt"},
		create: []field{
			{"tenant", "tenantId", "`id` of the tenant; default when not given"},
			{"name", "name", "`name`"},
			{"email", "email", "mail `address`"},
			{"role", "role", "owner, admin, project_admin or user (default)"},
			{"permissions", "servicePermissions", "levels that win over the role's, e.g. `agents:read,models:write`"},
		},
		change: []field{
			{"name", "name", "new `name`"},
			{"role", "role", "owner, admin, project_admin or user"},
			{"permissions", "servicePermissions", "levels that win over the role's, e.g. `agents:read,models:write`"},
		},
	}
}

func tokens() accountCommand {
	return accountCommand{
		name: "token", path: "tokens", noun: "API token",
		columns: []string{"id", "tenantId", "projectId", "userId", "label", "tokenPrefix", "servicePermissions", "lastUsed", "expiresAt"},
		create: []field{
			{"user", "userId", "`id` of the user for whom it acts; the first tenant's owner when not given"},
			{"project", "projectId", "`id` of its project; the tenant's first when not given"},
			{"label", "label", "what it is for, at least 3 `characters`"},
			{"scope", "servicePermissions", "what it may do at most, e.g. `agents:write,models:read`; all that its user may when not given"},
			{"expires-in", "expiresIn", "how long it is valid, a `duration` such as 720h; for ever when not given"},
		},
	}
}

// command is the sub-command of the program.
func (c accountCommand) command(summary string) command {
	return command{c.name, summary, func(ctx context.Context, args []string, s surroundings) int {
		return ended(s, c.run(ctx, args, s))
	}, c.verbs()}
}

func (c accountCommand) run(ctx context.Context, args []string, s surroundings) error {
	verb := ""
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet(c.name+" "+verb, flag.ContinueOnError)
	to := operatorFlags(flags)
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	switch {
	case verb == "list":
		return c.list(ctx, flags, to, args, s)
	case verb == "create":
		return c.make(ctx, flags, to, args, s)
	case verb == "set" && len(c.change) > 0:
		return c.set(ctx, flags, to, args, s)
	case verb == "delete":
		ids, err := parse(flags, args, s, operands{"ID", 1, 1})
		if err != nil {
			return err
		}
		if _, err = to.send(ctx, http.MethodDelete, "/v1/"+c.path+"/"+url.PathEscape(ids[0]), nil); err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.stdout, "%s %s deleted\n", c.noun, ids[0])
		return err
	}
	return c.usage(verb, s)
}

func (c accountCommand) verbs() []string {
	verbs := []string{"list", "create", "delete"}
	if len(c.change) > 0 {
		verbs = append(verbs, "set")
	}
	return verbs
}

func (c accountCommand) usage(verb string, s surroundings) error {
	out, err := s.stderr, errUsage
	if asksHelp(verb) {
		out, err = s.stdout, flag.ErrHelp
	} else if meant := config.DidYouMean(verb, c.verbs()); meant != "" {
		fmt.Fprintf(out, "parley %s: no %q%s\n", c.name, verb, meant)
	}
	fmt.Fprintf(out, "Usage: parley %s %s [flags] [ID]    (parley help %[1]s create lists the flags)\n", c.name, strings.Join(c.verbs(), "|"))
	return err
}

func (c accountCommand) list(ctx context.Context, flags *flag.FlagSet, to *operator, args []string, s surroundings) error {
	tenant := flags.String("tenant", "", "only those of the tenant with this `id`")
	asJSON := flags.Bool("json", false, "print JSON")
	if _, err := parse(flags, args, s, operands{}); err != nil {
		return err
	}
	text, err := to.send(ctx, http.MethodGet, "/v1/"+c.path+"?tenant="+url.QueryEscape(*tenant), nil)
	if err != nil {
		return err
	}
	if *asJSON {
		_, err = fmt.Fprintf(s.stdout, "%s\n", bytes.TrimSpace(text))
		return err
	}
	var rows []map[string]any
	if err = json.Unmarshal(text, &rows); err != nil {
		return fmt.Errorf("decode the answer: %w", err)
	}
	table := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, strings.ToUpper(strings.Join(c.columns, "\t")))
	for _, row := range rows {
		cells := make([]string, len(c.columns))
		for i, column := range c.columns {
			cells[i] = cell(row[column])
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

// cell formats a value of an answer for a table.
func cell(value any) string {
	switch v := value.(type) {
	case nil:
		return "-"
	case string:
		return dash(printable(v))
	case map[string]any:
		levels := make([]string, 0, len(v))
		for service, level := range v {
			levels = append(levels, fmt.Sprint(service, ":", level))
		}
		slices.Sort(levels)
		return dash(strings.Join(levels, ","))
	default:
		return fmt.Sprint(v)
	}
}

// printable removes control and invisible characters: names come from tenants and must not move the cursor or break the table.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// make creates an account and prints it. This is the only time that a token's secret is printed.
func (c accountCommand) make(ctx context.Context, flags *flag.FlagSet, to *operator, args []string, s surroundings) error {
	values := textFlags(flags, c.create)
	quiet := false
	if c.name == "token" {
		flags.BoolVar(&quiet, "quiet", false, "print only the token")
	}
	if _, err := parse(flags, args, s, operands{}); err != nil {
		return err
	}
	body, err := bodyOf(flags, values)
	if err != nil {
		return err
	}
	text, err := to.send(ctx, http.MethodPost, "/v1/"+c.path, body)
	if err != nil {
		return err
	}
	if quiet {
		var made struct {
			Token string `json:"token"`
		}
		if err = json.Unmarshal(text, &made); err != nil {
			return fmt.Errorf("decode the answer: %w", err)
		}
		_, err = fmt.Fprintln(s.stdout, made.Token)
		return err
	}
	return printJSON(s.stdout, text)
}

func (c accountCommand) set(ctx context.Context, flags *flag.FlagSet, to *operator, args []string, s surroundings) error {
	values := textFlags(flags, c.change)
	ids, err := parse(flags, args, s, operands{"ID", 1, 1})
	if err != nil {
		return err
	}
	body, err := bodyOf(flags, values)
	if err != nil {
		return err
	}
	text, err := to.send(ctx, http.MethodPatch, "/v1/"+c.path+"/"+url.PathEscape(ids[0]), body)
	if err != nil {
		return err
	}
	return printJSON(s.stdout, text)
}

// textFlags adds a flag for each field and returns the fields by flag.
func textFlags(flags *flag.FlagSet, fields []field) map[string]field {
	byFlag := make(map[string]field, len(fields))
	for _, f := range fields {
		flags.String(f.flag, "", f.usage)
		byFlag[f.flag] = f
	}
	return byFlag
}

// bodyOf is the request body with the flags that are set.
func bodyOf(flags *flag.FlagSet, fields map[string]field) ([]byte, error) {
	body := map[string]any{}
	var problem error
	flags.Visit(func(f *flag.Flag) {
		known, ok := fields[f.Name]
		if !ok {
			return
		}
		text := f.Value.String()
		switch known.key {
		case "servicePermissions":
			levels := map[string]string{}
			for part := range strings.SplitSeq(text, ",") {
				part = strings.TrimSpace(part)
				if at := strings.LastIndexAny(part, ":."); at > 0 { // document 3, 2.3 allows both
					levels[part[:at]] = part[at+1:]
				} else if text != "" {
					problem = fmt.Errorf("--%s: %q is not service:level", f.Name, part)
				}
			}
			body[known.key] = levels
		case "expiresIn":
			valid, err := time.ParseDuration(text)
			if err != nil || valid <= 0 {
				problem = fmt.Errorf("--%s: %q is not a duration above 0", f.Name, text)
			}
			body["expiresAt"] = time.Now().Add(valid).UTC().Format(time.RFC3339)
		default:
			body[known.key] = text
		}
	})
	if problem != nil {
		return nil, problem
	}
	return json.Marshal(body)
}

func printJSON(w io.Writer, text []byte) error {
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(text), "", "  "); err != nil {
		return fmt.Errorf("decode the answer: %w", err)
	}
	_, err := fmt.Fprintln(w, out.String())
	return err
}

// send makes a request and returns its answer, which is small.
func (o *operator) send(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	answer, err := o.callWith(ctx, method, path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(answer, maxAnswer))
	return text, errors.Join(err, answer.Close())
}
