package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version prints the build information.
func version(_ context.Context, args []string, s surroundings) int {
	if len(args) > 0 && asksHelp(args[0]) {
		fmt.Fprintln(s.stdout, "Usage: parley version")
		return exitOK
	}
	if len(args) > 0 {
		fmt.Fprintln(s.stderr, "parley version: takes no arguments")
		return exitUsage
	}
	release, revision := "(devel)", ""
	if build, ok := debug.ReadBuildInfo(); ok {
		release = build.Main.Version
		for _, setting := range build.Settings {
			if setting.Key == "vcs.revision" {
				revision = " " + setting.Value
			}
		}
	}
	_, err := fmt.Fprintf(s.stdout, "parley %s%s %s %s/%s\n", release, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return finish(s, err)
}
