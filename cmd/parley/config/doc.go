// Package config is the one place where settings come from: a tree of plain structs, its defaults, and the ways to
// set it. Sources in rising priority: defaults, config file (YAML), environment, flags.
//
// Every setting is declared once, by its field. The tags hold its name (key), its default, the range it must lie in
// and the words it may be (one_of); the comment describes it. All spellings follow from the name: http.base_path in
// the file is PARLEY_HTTP_BASE_PATH in the environment and --http-base-path as a flag. --print-config and -h show the
// comment, read from the embedded source, and the default. What concerns several settings at once is a check* function.
//
// Invariants: a Config returned by Load has passed Validate; unknown keys and repeated keys in the file are errors
// with file and line; a message names the setting and never repeats the value of a Secret.
//
// The package does not know the parts it configures: cmd/parley/node maps the tree to each package's own Config. It is
// the only package that reads the environment, and it opens no sockets and starts nothing.
package config
