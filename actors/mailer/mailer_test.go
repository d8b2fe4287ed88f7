package mailer_test

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/mailer"
	"parley/actors/mailer/mailertest"
)

var (
	from = &mail.Address{Name: "Parley", Address: "no-reply@parley.test"}
	at   = time.Date(2026, 11, 24, 1, 2, 3, 0, time.UTC)
)

func message() mailer.Message {
	return mailer.Message{
		ID: "mail_1", At: at, To: "ann@example.test", Subject: "Hello\r\nBcc: evil@example.test",
		Text: "Grüße\n.\nhttps://parley.test/reset-password#token=" + strings.Repeat("x", 300) + "\n",
	}
}

func smtp(t *testing.T, s *mailertest.Server, change func(*mailer.SMTPConfig)) *mailer.SMTP {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.Certificate)
	config := mailer.SMTPConfig{
		Server: s.Address, TLS: mailer.StartTLS, Roots: roots, User: "parley", Password: mailertest.Password, From: from, Timeout: 5 * time.Second,
	}
	if change != nil {
		change(&config)
	}
	sender, err := mailer.NewSMTP(config)
	require.NoError(t, err)
	return sender
}

func check(t *testing.T, m *mail.Message) {
	t.Helper()
	require.Equal(t, `"Parley" <no-reply@parley.test>`, m.Header.Get("From"))
	require.Equal(t, "<ann@example.test>", m.Header.Get("To"))
	require.Empty(t, m.Header.Get("Bcc"), "nothing adds a header")
	require.Equal(t, "Hello  Bcc: evil@example.test", m.Header.Get("Subject"))
	require.Equal(t, "<mail_1@parley.test>", m.Header.Get("Message-Id"))
	require.Equal(t, message().Text, mailertest.Text(t, m))
}

func TestSMTP(t *testing.T) {
	t.Parallel()
	for _, implicit := range []bool{false, true} {
		server := mailertest.New(t, implicit)
		sender := smtp(t, server, func(c *mailer.SMTPConfig) {
			if implicit {
				c.TLS = mailer.ImplicitTLS
			}
		})
		require.NoError(t, sender.Send(t.Context(), message()))
		got := server.Next(t)
		require.Equal(t, []any{"ann@example.test", true, "parley"}, []any{got.To, got.Encrypted, got.User})
		check(t, got.Message)
	}
}

// TestSMTPRefusals: what may be different later, and what is not.
func TestSMTPRefusals(t *testing.T) {
	t.Parallel()
	server := mailertest.New(t, false)
	answer := ""
	server.Refuse(func(string) string { return answer })
	for _, c := range []struct {
		answer   string
		change   func(*mailer.SMTPConfig)
		to       string
		hopeless bool
	}{
		{answer: "550 no such mailbox", hopeless: true},
		{answer: "451 come back"},
		{to: "no address", hopeless: true},
		{to: "a@example.test\r\nRCPT TO:<b@example.test>", hopeless: true},
		{change: func(c *mailer.SMTPConfig) { c.Roots = nil }},
		{change: func(c *mailer.SMTPConfig) { c.Password = "wrong" }},
		{change: func(c *mailer.SMTPConfig) { c.TLS = mailer.ImplicitTLS }},
		{change: func(c *mailer.SMTPConfig) { c.Server = "127.0.0.1:1" }},
	} {
		answer = c.answer
		m := message()
		if c.to != "" {
			m.To = c.to
		}
		err := smtp(t, server, c.change).Send(t.Context(), m)
		require.Error(t, err)
		require.Equal(t, c.hopeless, errors.Is(err, mailer.ErrHopeless), "%+v: %v", c, err)
		require.NotContains(t, err.Error(), mailertest.Password)
		require.True(t, server.None())
	}
}

// TestSMTPServerThatStripsTLS: a server that offers no encryption gets neither password nor mail.
func TestSMTPServerThatStripsTLS(t *testing.T) {
	t.Parallel()
	server := mailertest.New(t, false)
	server.Plain()
	require.Error(t, smtp(t, server, nil).Send(t.Context(), message()))
	require.True(t, server.None())
	require.Zero(t, server.Tries())
	open := smtp(t, server, func(c *mailer.SMTPConfig) { c.TLS, c.User = mailer.NoTLS, "" })
	require.NoError(t, open.Send(t.Context(), message()))
	require.False(t, server.Next(t).Encrypted)
}

// TestSMTPServerThatHangs: a server that says nothing holds nobody longer than the time of a message.
func TestSMTPServerThatHangs(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	server := mailertest.New(t, false)
	sender := smtp(t, server, func(c *mailer.SMTPConfig) { c.Server, c.Timeout = listener.Addr().String(), 100*time.Millisecond })
	require.Error(t, sender.Send(t.Context(), message()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	slow := smtp(t, server, func(c *mailer.SMTPConfig) { c.Server = listener.Addr().String() })
	require.Error(t, slow.Send(ctx, message()))
}

func TestFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "outbox")
	folder, err := mailer.NewFolder(dir, from, 3)
	require.NoError(t, err)
	m := message()
	for range 2 {
		require.NoError(t, folder.Send(t.Context(), m))
	}
	names := list(t, dir)
	require.Equal(t, []string{"20261124T010203.000Z-mail_1.eml"}, names, "the same one replaces it")
	file, err := os.Open(filepath.Join(dir, names[0]))
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	read, err := mail.ReadMessage(file)
	require.NoError(t, err)
	check(t, read)
	info, err := file.Stat()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	require.NoError(t, os.WriteFile(filepath.Join(dir, ".new-1"), nil, 0o600))
	for i, id := range []string{"mail_2", "mail_3", "../../mail_4"} {
		m.ID, m.At = id, at.Add(time.Duration(i+1)*time.Second)
		require.NoError(t, folder.Send(t.Context(), m))
	}
	require.Equal(t, []string{"20261124T010204.000Z-mail_2.eml", "20261124T010205.000Z-mail_3.eml", "20261124T010206.000Z-mail_4.eml"}, list(t, dir))
}

func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
