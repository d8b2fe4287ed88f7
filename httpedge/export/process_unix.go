//go:build unix

package export

import (
	"os/exec"
	"syscall"
)

// killTogether makes the end of the command's context kill its child processes, too: a browser is many processes.
func killTogether(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
}
