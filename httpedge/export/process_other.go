//go:build !unix

package export

import "os/exec"

// killTogether does nothing here: only the process itself is killed.
func killTogether(*exec.Cmd) {}
