package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// outcome is what a shell script sees of a finished command.
type outcome struct {
	code           int
	stdout, stderr string
}

func runBinary(t *testing.T, environ []string, args ...string) outcome {
	t.Helper()
	binary, err := builtBinary()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, binary, args...)
	command.Dir = t.TempDir()
	command.Env = append(os.Environ(), environ...)
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		exit := &exec.ExitError{}
		require.ErrorAs(t, err, &exit)
	}
	return outcome{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the binary and runs processes")
	}
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("listen: [\n"), 0o600))
	serveOn := func(args ...string) []string {
		return append([]string{"serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--data-dir", t.TempDir()}, args...)
	}
	for name, test := range map[string]struct {
		args    []string
		environ []string
		code    int
		stdout  string // a piece of it; "" = nothing there
		stderr  string
	}{
		"nothing":          {args: nil, code: 2, stderr: "Usage: parley"},
		"help":             {args: []string{"help"}, stdout: "Usage: parley"},
		"help_flag":        {args: []string{"--help"}, stdout: "Usage: parley"},
		"unknown_command":  {args: []string{"fly"}, code: 2, stderr: `no command "fly"`},
		"misspelt_command": {args: []string{"serv"}, code: 2, stderr: `no command "serv", did you mean serve?`},
		"misspelt_verb":    {args: []string{"token", "crate"}, code: 2, stderr: `no "crate", did you mean create?`},
		"misspelt_flag":    {args: []string{"status", "--jsn"}, code: 2, stderr: "unknown flag --jsn, did you mean --json?"},
		"help_of_command":  {args: []string{"help", "serve"}, stdout: "--ops-listen TEXT  (PARLEY_OPS_LISTEN)"},
		"help_of_verb":     {args: []string{"help", "token", "create"}, stdout: "  --expires-in duration"},
		"help_of_node":     {args: []string{"node", "-h"}, stdout: "  --wait duration"},
		"help_of_audit":    {args: []string{"help", "audit"}, stdout: "audit verify"},
		"completion":       {args: []string{"completion", "csh"}, code: 2, stderr: "bash|zsh|fish"},
		"version":          {args: []string{"version"}, stdout: "parley "},
		"version_flag":     {args: []string{"--version"}, stdout: "parley "},
		"version_argument": {args: []string{"version", "x"}, code: 2, stderr: "takes no arguments"},
		"serve_help":       {args: []string{"serve", "-h"}, stdout: "--ops-listen TEXT  (PARLEY_OPS_LISTEN)"},
		"serve_flag":       {args: serveOn("--no-such"), code: 2, stderr: "unknown flag --no-such"},
		"serve_argument":   {args: serveOn("x"), code: 2, stderr: `unexpected argument "x"`},
		"serve_value":      {args: serveOn("--storage-shards", "0"), code: 2, stderr: "storage.shards: 0 is not between"},
		"serve_variable":   {args: serveOn(), environ: []string{"PARLEY_LOG_LEVEL=loud"}, code: 2, stderr: "log.level"},
		"serve_no_file":    {args: serveOn("--config", "none.yaml"), code: 2, stderr: "none.yaml"},
		"serve_bad_file":   {args: serveOn("--config", file), code: 2, stderr: file + ":1:"},
		"serve_open":       {args: serveOn("--listen", "0.0.0.0:0"), code: 2, stderr: "auth.allow_insecure"},
		"serve_taken":      {args: serveOn("--listen", taken.Addr().String()), code: 1, stderr: "address already in use"},
		"serve_no_dir":     {args: serveOn("--data-dir", file), code: 1, stderr: "not a directory"},
		"print":            {args: serveOn("--print-config", "--http-base-path=/x"), stdout: "base_path: /x\n"},
		"routes":           {args: []string{"routes"}, stdout: "/conversations/{"},
		"routes_help":      {args: []string{"routes", "-h"}, stdout: "Usage: parley routes"},
		"routes_argument":  {args: []string{"routes", "x"}, code: 2, stderr: "Usage: parley routes"},
		"bench":            {args: []string{"bench"}, code: 2, stderr: "usage: parley bench"},
		"bench_scenario":   {args: []string{"bench", "dance"}, code: 2, stderr: `no scenario "dance"`},
	} {
		t.Run(name, func(t *testing.T) {
			got := runBinary(t, test.environ, test.args...)
			require.Equal(t, test.code, got.code, "stdout %s\nstderr %s", got.stdout, got.stderr)
			require.Contains(t, got.stdout, test.stdout)
			require.Contains(t, got.stderr, test.stderr)
			if test.code != 0 {
				require.Empty(t, got.stdout, "what failed says so on standard error")
			}
		})
	}
}

// The printed configuration, used as a file, prints itself.
func TestPrintedConfigIsAFile(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary and runs processes")
	}
	first := runBinary(t, []string{"PARLEY_SSE_PING=7s"}, "serve", "--print-config", "--node-name", "other")
	require.Zero(t, first.code, first.stderr)
	require.Contains(t, first.stdout, "ping: 7s")
	file := filepath.Join(t.TempDir(), "parley.yaml")
	require.NoError(t, os.WriteFile(file, []byte(first.stdout), 0o600))
	second := runBinary(t, nil, "serve", "--print-config", "--config", file)
	require.Zero(t, second.code, second.stderr)
	require.Equal(t, first.stdout, second.stdout)
}

func TestGracefulStopExitsZero(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the binary and runs processes")
	}
	for name, sent := range map[string]syscall.Signal{"sigterm": syscall.SIGTERM, "sigint": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			p := newProcess(t, testAgents)
			p.start()
			require.NoError(t, p.command.Process.Signal(sent))
			require.NoError(t, p.wait(40*time.Second), "exit code 0")
		})
	}
}

// TestShutdownDelay: a node that was told to stop is not ready at once, and answers until load balancers have noticed.
func TestShutdownDelay(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the binary and runs processes")
	}
	p := newProcess(t, testAgents+"shutdown_delay: 10m\n")
	p.start()
	require.NoError(t, p.command.Process.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool {
		status, said := p.try("GET", "http://"+p.ops+"/readyz", nil)
		return status == http.StatusServiceUnavailable && bytes.Contains(said, []byte("stopping"))
	}, time.Minute, 10*time.Millisecond)
	p.create("quick")
	require.NoError(t, p.command.Process.Signal(syscall.SIGTERM))
	require.Error(t, p.wait(time.Minute), "a second signal ends it at once")

	p = newProcess(t, testAgents+"shutdown_delay: 1s\n")
	p.start()
	require.NoError(t, p.command.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.wait(time.Minute), "exit code 0")
	require.Contains(t, p.log.String(), "not ready, stopping soon")
}

// A second signal does not wait for the turn that the first one lets finish: not when the first one shows, and not when
// it comes on the heels of it.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the binary and runs processes")
	}
	for name, second := range map[string]struct {
		between bool // it comes when the first one shows
		signal  syscall.Signal
	}{
		"when_it_shows": {true, syscall.SIGTERM},
		"on_its_heels":  {false, syscall.SIGINT}, // another one: of two that are alike the system may make one
	} {
		t.Run(name, func(t *testing.T) {
			p := newProcess(t, strings.Replace(testAgents, "tokens: 40, token_interval: 50ms", "tokens: 60, token_interval: 1s", 1)+"shutdown_grace: 60s\n")
			p.start()
			stream := p.open("POST", "/conversations/"+p.create("slow")+"/messages", map[string]any{"message": "hi", "stream": true}, "")
			defer stream.close()
			stream.until("stream.text")
			require.NoError(t, p.command.Process.Signal(syscall.SIGTERM))
			if second.between {
				require.Eventually(t, func() bool {
					status, _ := p.try("GET", "http://"+p.ops+"/readyz", nil)
					return status != 200
				}, 30*time.Second, 5*time.Millisecond, "stopping")
				select {
				case err := <-p.exited:
					p.command = nil
					require.Fail(t, "did not wait for the turn", "%v", err)
				default:
				}
			}
			require.NoError(t, p.command.Process.Signal(second.signal))
			exit := &exec.ExitError{}
			require.ErrorAs(t, p.wait(20*time.Second), &exit)
			// Of two signals that are pending the system delivers either first.
			require.Contains(t, []int{128 + int(syscall.SIGINT), 128 + int(syscall.SIGTERM)}, exit.ExitCode(), "ended by a signal, not by itself")
		})
	}
}

// wait returns what the process ended with.
func (p *process) wait(most time.Duration) error {
	p.t.Helper()
	select {
	case err := <-p.exited:
		p.command = nil
		return err
	case <-time.After(most):
		require.Fail(p.t, "still running")
		return nil
	}
}
