// Package config is the one place where settings come from: a tree of plain structs, its defaults, and the ways to
// set it. Sources in rising priority: defaults, config file (YAML), environment, flags.
//
// Every setting has one name, written in its field's `key` tag, and all spellings follow from it: http.base_path in
// the file is PARLEY_HTTP_BASE_PATH in the environment and --http-base-path as a flag. The description of a setting
// is the comment of its field; --print-config and -h read it from the embedded source, so there is no second copy.
//
// Invariants: a Config returned by Load has passed Validate; unknown keys and repeated keys in the file are errors
// with file and line; a message names the setting and never repeats the value of a Secret.
//
// It does not know the parts it configures: cmd/parley/node maps the tree to each package's own Config. It is the only
// package that reads the environment, and it opens no sockets and starts nothing.
package config
