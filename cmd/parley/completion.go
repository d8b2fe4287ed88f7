package main

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// completions are scripts for shells. All of them ask this program for the words that may come next.
func completions() map[string]string {
	return map[string]string{
		"bash": `_parley() {
  local IFS=$'\n'
  COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" completion words "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _parley parley
`,
		"zsh": `#compdef parley
_parley() {
  compadd -- ${(f)"$($words[1] completion words ${words[2,CURRENT-1]} 2>/dev/null)"} || _files
}
compdef _parley parley
`,
		"fish": `complete -c parley -a '(set -l words (commandline -opc); $words[1] completion words $words[2..] 2>/dev/null)'
`,
	}
}

// completion prints the script of a shell, or the words that may follow others on a command line.
func completion(ctx context.Context, args []string, s surroundings) int {
	if len(args) > 0 && args[0] == "words" {
		for _, word := range nextWords(ctx, args[1:]) {
			fmt.Fprintln(s.stdout, word)
		}
		return exitOK
	}
	if len(args) == 1 && completions()[args[0]] != "" {
		fmt.Fprint(s.stdout, completions()[args[0]])
		return exitOK
	}
	const text = "Usage: parley completion bash|zsh|fish\n\n" +
		"For this shell: source <(parley completion bash), source <(parley completion zsh), parley completion fish | source\n"
	if len(args) > 0 && asksHelp(args[0]) {
		fmt.Fprint(s.stdout, text)
		return exitOK
	}
	fmt.Fprint(s.stderr, text)
	return exitUsage
}

var helpFlag = regexp.MustCompile(`(?m)^ +(--?[a-z][a-z0-9-]+)`) // a constant

// nextWords are those that may follow words: commands, then what a command takes first, and the flags of which its help tells.
func nextWords(ctx context.Context, words []string) []string {
	var next []string
	if len(words) == 0 {
		for _, c := range commands() {
			next = append(next, c.name)
		}
		return append(next, "help")
	}
	for _, c := range commands() {
		if c.name != words[0] {
			continue
		}
		asked := []string{"-h"}
		switch {
		case len(words) == 1:
			next = append(next, c.verbs...)
		case slices.Contains(c.verbs, words[1]):
			asked = []string{words[1], "-h"}
		}
		var help bytes.Buffer
		c.run(ctx, asked, surroundings{stdout: &help, stderr: &help})
		for _, found := range helpFlag.FindAllStringSubmatch(help.String(), -1) {
			next = append(next, "--"+strings.TrimLeft(found[1], "-"))
		}
	}
	return next
}
