package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// documents are README.md and what it leads to.
func documents(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for i, name := range names {
		names[i] = "docs/" + filepath.Base(name)
	}
	return append([]string{"README.md"}, names...)
}

// readmeBlock is a fenced block of a document.
type readmeBlock struct {
	section, language, text string
	line                    int
}

// readmeBlocks returns all blocks of a document. What is indented would be a block, too, and must not get past the test.
func readmeBlocks(t *testing.T, document string) []readmeBlock {
	t.Helper()
	text, err := os.ReadFile("../../" + document)
	require.NoError(t, err)
	var blocks []readmeBlock
	section, inside := "", false
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case strings.HasPrefix(line, "```") && !inside:
			inside = true
			blocks = append(blocks, readmeBlock{section: section, language: line[3:], line: i + 2})
		case strings.HasPrefix(line, "```"):
			inside = false
		case inside:
			blocks[len(blocks)-1].text += line + "\n"
		case strings.HasPrefix(line, "## "):
			section = line[3:]
		default:
			require.False(t, strings.HasPrefix(line, "    "), "%s:%d: an indented block", document, i+1)
		}
	}
	require.False(t, inside, "the last block has no end")
	return blocks
}

// readmeConfig is the first configuration in a section of a document.
func readmeConfig(t *testing.T, document, section string) string {
	t.Helper()
	for _, b := range readmeBlocks(t, document) {
		if b.section == section && b.language == "yaml" {
			return b.text
		}
	}
	require.Fail(t, "there is no such configuration", "%s: %s", document, section)
	return ""
}

// programs are what runs a program of a document, from its standard input. A machine without it goes without.
var programs = map[string]string{"js": "node --input-type=module -", "python": "python3 -"} // a constant

// strict has a command fail where a person would see an error: answers that are none of 2xx, and whatever a pipe hides. What is to
// last a while and is cut (--max-time) is as it should be. A server that a block starts is stopped once it is ready.
const strict = `set -euo pipefail
trap 'echo "FAILED: $BASH_COMMAND"' ERR
curl() {
  local rc=0
  command curl --fail-with-body -S "$@" || rc=$?
  if [ $rc = 28 ] && [[ " $* " == *" --max-time "* ]]; then rc=0; fi
  return $rc
}
serve_until_ready() {
  "$@" >serve.log 2>&1 &
  local pid=$! n=0
  until command curl -sf -o /dev/null "http://$PARLEY_OPS_LISTEN/readyz"; do
    n=$((n + 1))
    if [ $n = 300 ] || ! kill -0 $pid; then cat serve.log; return 1; fi
    sleep 0.1
  done
  kill $pid
  wait $pid
}
`

// readmeTree is a folder in which the commands find what they name.
type readmeTree struct {
	t     *testing.T
	dir   string
	addrs *strings.Replacer // of README.md in those of this test
	ops   string
}

func newReadmeTree(t *testing.T) *readmeTree {
	t.Helper()
	binary, err := builtBinary()
	require.NoError(t, err)
	r := &readmeTree{t: t, dir: t.TempDir()}
	for _, dir := range []string{"bin", "cmd/parley"} {
		require.NoError(t, os.MkdirAll(filepath.Join(r.dir, dir), 0o700))
	}
	require.NoError(t, os.Symlink(binary, filepath.Join(r.dir, "bin", "parley")))
	script, err := os.ReadFile("cluster.sh")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "cmd", "parley", "cluster.sh"), script, 0o700)) //nolint:gosec // it is run
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "stock.yaml"), []byte("openapi: 3.0.3\npaths: {}\n"), 0o600))
	return r
}

var (
	orderCalls = regexp.MustCompile(`(?m)^/order A17 \S+$`)                              // a constant
	linkTarget = regexp.MustCompile(`\]\(([\w./-]+)(?:#[\w-]+)?\)`)                      // a constant
	makeLine   = regexp.MustCompile(`(?m)^make ([\w-]+)`)                                // a constant
	serveLine  = regexp.MustCompile(`(?m)^bin/parley serve( --config [\w.]+)?( *#.*)?$`) // a constant
)

// paste runs all commands of a document as a person pastes them, one block after the other into one shell, and returns what they print.
// What is for another terminal begins with make.
func (r *readmeTree) paste(document string) string {
	r.t.Helper()
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(r.t, err)
	script := strict
	if r.ops == "" { // it starts nodes of its own, as its configuration says
		script += "unset PARLEY_LISTEN PARLEY_OPS_LISTEN\n"
	}
	for _, b := range readmeBlocks(r.t, document) {
		script += fmt.Sprintf("echo; echo '== line %d'\n", b.line)
		text := r.addrs.Replace(b.text)
		switch b.language {
		case "sh":
			for _, target := range makeLine.FindAllStringSubmatch(text, -1) {
				require.Regexp(r.t, `(?m)^`+target[1]+`:`, string(makefile), "line %d", b.line)
			}
			text = makeLine.ReplaceAllString(text, ": $0")
			script += serveLine.ReplaceAllString(text, "serve_until_ready $0")
		case "js", "python":
			program, _, _ := strings.Cut(programs[b.language], " ")
			script += fmt.Sprintf("if ! type %s; then echo 'skipped'; else %s <<'END_OF_PROGRAM'\n%sEND_OF_PROGRAM\nfi\n", program, programs[b.language], text)
		default:
			require.Contains(r.t, []string{"yaml", "mermaid", "nginx", "ts"}, b.language, "line %d", b.line)
		}
	}
	return r.bash(script)
}

func (r *readmeTree) bash(script string) string {
	r.t.Helper()
	out, err := os.Create(filepath.Join(r.dir, "out.txt")) // no pipe: what the script leaves in the background could hold it open
	require.NoError(r.t, err)
	defer func() { _ = out.Close() }()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-c", script)
	command.Dir, command.Stdout, command.Stderr = r.dir, out, out
	command.Env = append(os.Environ(), "PARLEY_OPS=http://"+r.ops, "SHOP_TOKEN=x", "MODEL_KEY=x",
		"PARLEY_LISTEN="+freeAddress(r.t), "PARLEY_OPS_LISTEN="+freeAddress(r.t))
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = command.Run()
	if command.Process != nil {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // followers that it left behind
	}
	text, readErr := os.ReadFile(out.Name())
	require.NoError(r.t, readErr)
	require.NoError(r.t, err, "%s", text)
	return string(text)
}

// TestReadmeCommands pastes every command of the documents that one node is enough for, each document into one shell, and loads every
// configuration in them.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs processes")
	}
	p := newProcess(t, "outbound: {allow: [127.0.0.0/8]}\n")
	p.start()
	r := newReadmeTree(t)
	receiver := newHookListener(t)
	r.ops, r.addrs = p.ops, strings.NewReplacer("localhost:8080", p.listen, "https://example.com/hooks", receiver.URL)
	ran := map[string]bool{"docs/cluster.md": true, "docs/tutorial.md": true} // by tests of their own
	for document, wants := range map[string][]string{
		"README.md": {
			`"agents":[`, "event: stream.done", "event: agent.message", `"settled"`, `"status":"waiting"`, `"stopReason":"end_turn"`,
			`"stopReason":"budget_reached"`, `"object":"chat.completion"`,
		},
		"docs/agents.md": {`"status":"waiting"`, `"stopReason":"end_turn"`, `"stopReason":"budget_reached"`, `"name":"notes.txt"`},
		"docs/client-api.md": {
			`"status":"succeeded"`, `"object":"chat.completion"`, "event: response.function_call_arguments.done", "event: response.completed",
			`"token": "service_`, "first of ACME", `"eventType":"webhook.test"`,
		},
	} {
		ran[document] = true
		t.Run(document, func(t *testing.T) {
			out := r.paste(document)
			for _, want := range wants {
				require.Contains(t, out, want)
			}
			if document == "README.md" && !strings.Contains(out, "skipped") { // the stream of curl has it in pieces
				require.Contains(t, out, "Hello! This is the agent", "said by Python")
				require.Contains(t, out, "Hello!\n This\n is\n the\n agent", "and by JavaScript")
			}
		})
	}
	story, err := os.ReadFile(filepath.Join(r.dir, "story.html"))
	require.NoError(t, err)
	require.Contains(t, string(story), "<html")
	r.bash(strict + "bin/parley certs n1 n2 n3")
	for _, document := range documents(t) {
		for _, b := range readmeBlocks(t, document) {
			if b.language == "sh" {
				require.True(t, ran[document], "no test runs the commands at %s:%d", document, b.line)
			}
			if b.language != "yaml" {
				continue
			}
			require.NoError(t, os.WriteFile(filepath.Join(r.dir, "block.yaml"), []byte(b.text), 0o600))
			printed := r.bash(strict + "unset PARLEY_LISTEN; bin/parley serve --config block.yaml --print-config")
			require.Contains(t, printed, "exclude_routes: [/docs, ", "%s:%d", document, b.line)
		}
	}
}

// TestReadmeTutorial pastes the tutorial: its node is killed twice, and what it says of that is so.
//
// It begins its node twice more at an address of the loopback interface that all tests share: beside others somebody's connection may have it
// at that moment.
func TestReadmeTutorial(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs processes")
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("its tool is a program of Python")
	}
	r := newReadmeTree(t)
	listen, ops, shop := freeAddress(t), freeAddress(t), freeAddress(t)
	_, shopPort, _ := strings.Cut(shop, ":")
	r.addrs = strings.NewReplacer("127.0.0.1:8090", listen, "localhost:8090", listen, "127.0.0.1:8091", ops, "localhost:8091", ops,
		"127.0.0.1:8092", shop, `"127.0.0.1", 8092`, `"127.0.0.1", `+shopPort)
	out := r.paste("docs/tutorial.md")
	require.Equal(t, 2, strings.Count(out, "the node is gone"))
	calls := orderCalls.FindAllString(out, -1)
	require.Len(t, calls, 3, "seen once in the loop, then both")
	require.Len(t, slices.Compact(calls), 1, "with one key")
	require.Contains(t, out, "Your 40 euros for the kettle are on their way.\n1\n", "refunded once")
	require.Contains(t, out, `"type":"session.recovered"`)
}

// TestReadmeLeadsSomewhere: it is short, and what the documents link to is there.
func TestReadmeLeadsSomewhere(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(readme), "\n"), 200)
	for _, document := range documents(t) {
		if document != "README.md" {
			require.Contains(t, string(readme), "("+document+")")
		}
		text, err := os.ReadFile("../../" + document)
		require.NoError(t, err)
		for _, link := range linkTarget.FindAllStringSubmatch(string(text), -1) {
			require.FileExists(t, filepath.Join("../..", filepath.Dir(document), link[1]), document)
		}
	}
}

// TestReadmeAuthentication starts a node as the documents show it, and pastes what it says to people.
func TestReadmeAuthentication(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs a process")
	}
	p := newProcess(t, readmeConfig(t, "docs/operations.md", "Authentication"))
	greeting := &processLog{}
	p.greets = greeting
	p.start()
	for path, want := range map[string]int{
		"/": 200, "/api/agents/docs": 200, "/api/agents/docs/openapi.json": 200, "/api/agents/agents": 401, "/api/agents/conversations": 401,
		"/api/client/v1/docs": 200, "/api/client/v1/docs/swagger-initializer.js": 200, "/api/client/v1/docs/index.html": 404,
		"/api/client/v1/openapi.json": 200, "/api/client/v1/agents": 401,
	} {
		status, body := p.try("GET", "http://"+p.listen+path, nil)
		require.Equal(t, want, status, "%s: %s", path, body)
	}
	require.Eventually(t, func() bool { return strings.Contains(greeting.String(), "Ctrl-C stops it") }, time.Minute, 5*time.Millisecond)
	said := greeting.String()
	require.Contains(t, said, "asks for a token")
	require.Contains(t, said, "http://"+p.listen+"/api/client/v1/docs")
	_, commands, found := strings.Cut(said, "another terminal:\n")
	require.True(t, found, said)
	commands, _, _ = strings.Cut(commands, "Ctrl-C")
	require.Contains(t, commands, "TOKEN=...   # one of auth.tokens")
	commands = strings.Replace(commands, "TOKEN=...", "TOKEN=change-me", 1)
	commands = strings.Replace(commands, "/events/stream", "/events/stream --max-time 1", 1)
	r := newReadmeTree(t)
	r.ops = p.ops
	require.Contains(t, r.bash(strict+commands), "event: stream.done")

	closed := newProcess(t, strings.Replace(readmeConfig(t, "docs/operations.md", "Authentication"), "auth:", "auth:\n  exclude_routes: []", 1))
	closed.start()
	status, _ := closed.try("GET", closed.url("/docs"), nil)
	require.Equal(t, 401, status, "the operator has closed them")
}

// TestReadmeCluster runs the commands about three nodes, with the script behind `make cluster`: it remembers its ports.
func TestReadmeCluster(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs a cluster")
	}
	r := newReadmeTree(t)
	web := freeRange(t, 22+23) // one range: of two, one in three hundred pairs overlaps
	members := web + 22
	at := func(offset int) string { return fmt.Sprintf("127.0.0.1:%d", web+offset) }
	r.ops = at(1)
	r.addrs = strings.NewReplacer("localhost:8080", at(0), "localhost:8090", at(10), "localhost:8100", at(20))
	c := r.cluster("HTTP_PORT="+strconv.Itoa(web), "CLUSTER_PORT="+strconv.Itoa(members))
	c.ready()

	out := r.paste("docs/cluster.md")
	require.Regexp(t, "n2 runs as process", out)
	require.Contains(t, out, `"type":"session.recovered"`, "followed on n3")
	require.Regexp(t, `X-Served-By: n[13]`, out)
	require.Regexp(t, `as n1 sees it \(ready: .*, feature level`, out)
	require.NoError(t, until(t.Context(), 30*time.Second, func(context.Context) error {
		//nolint:contextcheck // the script has the test's
		if now := r.bash(strict + "bin/parley status"); !strings.Contains(now, "as n1 sees it (ready: yes, feature level") {
			return errors.New(now)
		}
		return nil
	}), "n2 has just come back")

	second := r.cluster()
	require.Error(t, second.ended())
	require.Regexp(t, `n1 runs already, as process \d+`, second.log.String())
	out = r.bash(strict + "curl -s http://" + at(0) + "/api/agents/agents")
	require.Contains(t, out, "assistant", "it did nothing to the nodes of the first")
	c.stop()

	// The next start takes the same ports, or says which of them is taken.
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", at(11))
	require.NoError(t, err)
	refused := r.cluster()
	require.Error(t, refused.ended())
	require.Contains(t, refused.log.String(), fmt.Sprintf("n2 cannot start: port %d is taken by another program", web+11))
	require.NoError(t, listener.Close())
	again := r.cluster()
	again.ready()
	require.Contains(t, again.log.String(), at(20))
	again.stop()
}

// freeRange finds so many ports in a row that nobody listens on, below those that the system hands out.
func freeRange(t *testing.T, size int) int {
	t.Helper()
	for range 1_000 {
		first := 20_000 + rand.IntN(12_000) //nolint:gosec // any will do
		free := true
		for port := first; port < first+size && free; port++ {
			listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if free = err == nil; free {
				require.NoError(t, listener.Close())
			}
		}
		if free {
			return first
		}
	}
	require.Fail(t, "no free ports")
	return 0
}

// clusterScript is a run of the script behind `make cluster`.
type clusterScript struct {
	t       *testing.T
	command *exec.Cmd
	log     *processLog
	exited  chan error
}

func (r *readmeTree) cluster(environment ...string) *clusterScript {
	r.t.Helper()
	c := &clusterScript{t: r.t, log: &processLog{}, exited: make(chan error, 1)}
	c.command = exec.CommandContext(context.Background(), "bash", "cmd/parley/cluster.sh")
	c.command.Dir, c.command.Stdout, c.command.Stderr = r.dir, c.log, c.log
	c.command.Env = append(os.Environ(), environment...)
	c.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(r.t, c.command.Start())
	go func() { c.exited <- c.command.Wait() }()
	r.t.Cleanup(func() {
		_ = syscall.Kill(-c.command.Process.Pid, syscall.SIGKILL) // none of it is there when all is well
		files, _ := filepath.Glob(filepath.Join(r.dir, "parley-cluster", "*.pid"))
		for _, file := range files { // those that were started anew are of another group
			text, err := os.ReadFile(file)
			if pid, convErr := strconv.Atoi(strings.TrimSpace(string(text))); cmp.Or(err, convErr) == nil && isNode(pid, r.dir) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	return c
}

// isNode says whether a process works in a folder.
func isNode(pid int, dir string) bool {
	at, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	return err == nil && at == dir
}

func (c *clusterScript) ready() {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return strings.Contains(c.log.String(), "Three nodes are ready.") },
		time.Minute, 20*time.Millisecond, "%s", c.log)
}

// ended waits until it ends by itself and returns how.
func (c *clusterScript) ended() error {
	c.t.Helper()
	select {
	case err := <-c.exited:
		return err
	case <-time.After(time.Minute):
		require.Fail(c.t, "it goes on", "%s", c.log)
		return nil
	}
}

func (c *clusterScript) stop() {
	c.t.Helper()
	require.NoError(c.t, c.command.Process.Signal(syscall.SIGTERM))
	require.NoError(c.t, c.ended())
	require.Contains(c.t, c.log.String(), "stopping")
}
