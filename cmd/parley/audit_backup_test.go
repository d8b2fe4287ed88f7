package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAuditOfABackup: rows that are cut off at the end of a chain are missed by whoever has seen them, in a file and in a server that was
// restored from an older backup; what was restored is a whole chain, and goes on.
func TestAuditOfABackup(t *testing.T) {
	t.Parallel()
	p := newProcess(t, accountsConfig)
	p.start()
	owner, email, _ := company(t, p)
	tenant := owner.done(t, "POST", "/auth/login", object1{"email": email, "password": goodPassword}).text("tenant", "id")
	change := func(b *visitor, name string) { b.done(t, "POST", "/groups", object1{"name": name}) }
	verify := func(p *process, more ...string) (int, string) {
		return verifyAudit(t, append([]string{"--tenant", tenant, "--ops", "http://" + p.ops}, more...)...)
	}
	seen := func(p *process) string {
		code, text := verify(p)
		require.Equal(t, exitOK, code, text)
		_, anchor, _ := strings.Cut(strings.TrimSpace(text), "seen ")
		return anchor
	}
	change(owner, "Before")
	before := seen(p)
	backup := filepath.Join(t.TempDir(), "backup.zip")
	got := runBinary(t, []string{"PARLEY_OPS=http://" + p.ops}, "backup", "--out", backup)
	require.Equal(t, 0, got.code, got.stderr)
	change(owner, "After")
	after := seen(p)
	require.NotEqual(t, before, after)

	lines := strings.SplitAfter(owner.call(t, "GET", "/audit/logs/export", nil).text, "\n")
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	check := func(text string, more ...string) (int, string) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return verifyAudit(t, append([]string{"--file", file}, more...)...)
	}
	whole, last := strings.Join(lines, ""), len(lines)-3 // before the end and what follows its line
	code, text := check(whole, "--seen", after)
	require.Equal(t, exitOK, code, text)
	code, text = check(strings.Join(lines[:last], "") + lines[last+1])
	require.Equal(t, exitFailed, code)
	require.Contains(t, text, "rows were removed or added")
	code, text = check(strings.Join(lines[:last+1], ""))
	require.Equal(t, exitFailed, code)
	require.Contains(t, text, "the export has no end")
	previous := decode(t, lines[last-1])
	end := fmt.Sprintf(`{"type":"audit.end","tenantId":%q,"seq":%v,"hash":%q}`+"\n", tenant, previous.at("seq").v, previous.text("hash"))
	code, text = check(strings.Join(lines[:last], "") + end)
	require.Equal(t, exitOK, code, "a shorter chain that is whole is known by nothing but what was seen of it: %s", text)
	code, text = check(strings.Join(lines[:last], "")+end, "--seen", after)
	require.Equal(t, exitFailed, code)
	require.Contains(t, text, "which was seen earlier, is missing")

	restored := newProcess(t, accountsConfig)
	restored.dir = filepath.Join(t.TempDir(), "restored")
	got = runBinary(t, nil, "restore", "--from", backup, "--data-dir", restored.dir)
	require.Equal(t, 0, got.code, got.stderr)
	restored.start()
	require.Equal(t, before, seen(restored))
	code, text = verify(restored, "--seen", after)
	require.Equal(t, exitFailed, code)
	require.Contains(t, text, "which was seen earlier, is missing")
	again := newVisitor(t, restored)
	again.done(t, "POST", "/auth/login", object1{"email": email, "password": goodPassword})
	change(again, "Again")
	code, text = verify(restored, "--seen", before)
	require.Equal(t, exitOK, code, text)
}
