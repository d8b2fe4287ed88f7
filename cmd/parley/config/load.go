package config

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
)

// Request is a parsed command line with the configuration that it led to.
type Request struct {
	Config *Config
	// File is the config file that was read, "" for none.
	File string
	// Print requests to print the configuration and start nothing.
	Print bool
	// Unknown are environment variables with our prefix that are no settings (typing errors, or set by a platform), with the
	// one that was probably meant.
	Unknown map[string]string
}

// Load reads all sources. args is the command line after the sub-command, environ is as of os.Environ. The error is
// flag.ErrHelp if help was requested; otherwise its text names every wrong setting, one per line.
func Load(args, environ []string) (*Request, error) {
	c := Default()
	env := environment(environ)
	c.lookupEnv = func(name string) (string, bool) { value, ok := env[name]; return value, ok }

	line, err := parseFlags(args)
	if err != nil {
		return nil, err
	}
	if line.file == "" {
		line.file = env[envPrefix+"CONFIG"]
	}
	problems := overlayFile(c, line.file)
	all := settings(c)
	known := map[string]bool{envPrefix + "CONFIG": true}
	for _, s := range all {
		known[s.env()] = true
		// An empty variable counts as unset: deployment files often set a variable to nothing.
		for _, name := range []string{s.document, s.env()} {
			if text := env[name]; name != "" && text != "" {
				problems = append(problems, s.set(text, name)...)
			}
		}
	}
	for _, s := range all {
		if text, ok := line.values[s.flag()]; ok {
			problems = append(problems, s.set(text, "--"+s.flag())...)
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	c.Accounts.readLifetime(env, line.values)
	for _, name := range []string{"PROVIDER_ENCRYPTION_SECRET", "JWT_SECRET"} { // the names that document 1 gives it
		if c.ProviderEncryptionSecret == "" {
			c.ProviderEncryptionSecret = Secret(env[name])
		}
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Request{Config: c, File: line.file, Print: line.print, Unknown: unknownVariables(environ, known)}, nil
}

func overlayFile(c *Config, name string) []error {
	if name == "" {
		return nil
	}
	text, err := readLimited(name)
	if err != nil {
		return []error{fmt.Errorf("read config file: %w", err)}
	}
	return bindDocument(c, text, name)
}

// readLimited reads a file with settings or secrets, of a limited size.
func readLimited(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(file, maxDocument+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxDocument {
		return nil, fmt.Errorf("%s: larger than 1MiB", name)
	}
	return text, nil
}

func environment(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, line := range environ {
		if name, value, ok := strings.Cut(line, "="); ok {
			env[name] = value
		}
	}
	return env
}

func unknownVariables(environ []string, known map[string]bool) map[string]string {
	unknown, names := map[string]string{}, slices.Sorted(maps.Keys(known))
	for _, line := range environ {
		name, _, _ := strings.Cut(line, "=")
		if strings.HasPrefix(name, envPrefix) && !known[name] {
			unknown[name] = Nearest(name, names)
		}
	}
	return unknown
}

// commandLine holds the flags before they are applied: --config must be known before the file is read.
type commandLine struct {
	file   string
	print  bool
	values map[string]string
}

func parseFlags(args []string) (commandLine, error) {
	line := commandLine{values: map[string]string{}}
	set := flag.NewFlagSet("serve", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&line.file, "config", "", "")
	set.BoolVar(&line.print, "print-config", false, "")
	for _, s := range settings(Default()) {
		set.Var(pending{name: s.flag(), isBool: s.value.Kind() == reflect.Bool, into: line.values}, s.flag(), "")
	}
	if err := set.Parse(args); err != nil {
		return line, FlagError(set, err)
	}
	if set.NArg() > 0 {
		return line, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	return line, nil
}

// pending is a flag.Value that only remembers its text.
type pending struct {
	name   string
	isBool bool
	into   map[string]string
}

// String implements flag.Value; there is no default to show.
func (p pending) String() string { return "" }

// Set keeps the text.
func (p pending) Set(text string) error {
	p.into[p.name] = text
	return nil
}

// IsBoolFlag lets --name stand for --name=true.
func (p pending) IsBoolFlag() bool { return p.isBool }

// WriteUsage writes all flags with their environment variables and what they mean.
func WriteUsage(w io.Writer) error {
	var out bytes.Buffer
	out.WriteString("Usage: parley serve [flags]\n\nEvery setting has a flag, an environment variable and a key in the config file; a flag\n" +
		"wins over the environment, the environment over the file, the file over the default. An\n" +
		"empty variable counts as unset. Lists are split at commas; lists of objects are YAML.\n\n" +
		"  --config FILE  (PARLEY_CONFIG)\n      Config file in YAML; --print-config shows one.\n" +
		"  --print-config\n      Print the effective configuration as a commented config file, and exit.\n")
	for _, s := range settings(Default()) {
		fmt.Fprintf(&out, "  --%s%s  (%s)\n", s.flag(), s.metavar(), s.env())
		writeWrapped(&out, "      ", s.doc())
	}
	_, err := w.Write(out.Bytes())
	return err
}
