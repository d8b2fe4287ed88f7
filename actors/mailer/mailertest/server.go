// Package mailertest is a mail server for tests: a real one, over TCP and TLS, that keeps what it is sent.
package mailertest

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Mail is one that was taken.
type Mail struct {
	To        string
	Encrypted bool
	User      string // that logged in, "" = nobody
	*mail.Message

	Raw string
}

// Server is a mail server.
type Server struct {
	// Address is host:port; Certificate is its own, PEM.
	Address     string
	Certificate []byte

	listener net.Listener
	tls      *tls.Config
	implicit bool
	taken    chan Mail

	mu     sync.Mutex
	refuse func(to string) string // the answer to RCPT, "" = taken
	tries  int
	plain  bool
}

// New starts a server that offers STARTTLS, or with implicit speaks nothing but TLS.
func New(t *testing.T, implicit bool) *Server {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	const room = 1000
	s := &Server{Address: listener.Addr().String(), listener: listener, implicit: implicit, taken: make(chan Mail, room)}
	s.certify(t)
	var serving sync.WaitGroup
	serving.Go(func() { s.accept(&serving) })
	t.Cleanup(func() { _ = listener.Close() })
	return s
}

func (s *Server) certify(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mail"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	s.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s.tls = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
}

// Plain has the server offer no encryption as of now.
func (s *Server) Plain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plain = true
}

func (s *Server) offersTLS() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.plain
}

// Refuse answers recipients as of now, "" = they are taken.
func (s *Server) Refuse(answer func(to string) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = answer
}

// Tries is how many recipients were named so far.
func (s *Server) Tries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tries
}

// Next returns the next mail that is taken.
func (s *Server) Next(t *testing.T) Mail {
	t.Helper()
	const patience = 5 * time.Minute // an attempt of a node that died is lost after three
	select {
	case m := <-s.taken:
		return m
	case <-time.After(patience):
		require.Fail(t, "no mail has come")
		return Mail{}
	}
}

// None says that no mail has come that was not asked for.
func (s *Server) None() bool { return len(s.taken) == 0 }

func (s *Server) accept(serving *sync.WaitGroup) {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		if s.implicit {
			conn = tls.Server(conn, s.tls)
		}
		serving.Go(func() {
			session := &session{server: s, conn: conn, encrypted: s.implicit}
			session.run()
			_ = session.conn.Close()
		})
	}
}

// session is one connection.
type session struct {
	server    *Server
	conn      net.Conn
	lines     *bufio.Reader
	encrypted bool
	user, to  string
}

func (c *session) say(lines ...string) {
	_, _ = io.WriteString(c.conn, strings.Join(lines, "\r\n")+"\r\n")
}

func (c *session) run() {
	c.lines = bufio.NewReader(c.conn)
	c.say("220 mail ESMTP")
	for {
		line, err := c.lines.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		verb, rest, _ := strings.Cut(line, " ")
		switch strings.ToUpper(verb) {
		case "EHLO":
			offers := []string{"250-mail", "250-AUTH PLAIN"}
			if !c.encrypted && c.server.offersTLS() {
				offers = append(offers, "250-STARTTLS")
			}
			c.say(append(offers, "250 8BITMIME")...)
		case "STARTTLS":
			c.say("220 go on")
			c.conn, c.encrypted = tls.Server(c.conn, c.server.tls), true
			c.lines = bufio.NewReader(c.conn)
		case "AUTH":
			c.auth(rest)
		case "MAIL", "RSET", "NOOP":
			c.say("250 ok")
		case "RCPT":
			c.recipient(rest)
		case "DATA":
			if !c.data() {
				return
			}
		case "QUIT":
			c.say("221 bye")
			return
		default:
			c.say("500 what?")
		}
	}
}

func (c *session) auth(rest string) {
	_, coded, _ := strings.Cut(rest, " ")
	plain, err := base64.StdEncoding.DecodeString(coded)
	parts := strings.Split(string(plain), "\x00")
	if err != nil || len(parts) != 3 || parts[2] != Password {
		c.say("535 no")
		return
	}
	c.user = parts[1]
	c.say("235 welcome")
}

func (c *session) recipient(rest string) {
	c.to = strings.Trim(strings.TrimPrefix(strings.ToUpper(rest[:3]), "TO:")+rest[3:], "<> ")
	s := c.server
	s.mu.Lock()
	s.tries++
	answer := ""
	if s.refuse != nil {
		answer = s.refuse(c.to)
	}
	s.mu.Unlock()
	if answer == "" {
		answer = "250 ok"
	}
	c.say(answer)
}

func (c *session) data() bool {
	c.say("354 go on")
	var raw strings.Builder
	for {
		line, err := c.lines.ReadString('\n')
		if err != nil {
			return false
		}
		if line == ".\r\n" {
			break
		}
		raw.WriteString(strings.TrimPrefix(line, "."))
	}
	message, err := mail.ReadMessage(strings.NewReader(raw.String()))
	if err != nil {
		c.say("554 " + fmt.Sprint(err))
		return true
	}
	c.server.taken <- Mail{To: c.to, Encrypted: c.encrypted, User: c.user, Message: message, Raw: raw.String()}
	c.say("250 taken")
	return true
}

// Password is the one that the server takes, of any user.
const Password = "hunter2 & co"

// Text decodes the body of a mail.
func Text(t *testing.T, m *mail.Message) string {
	t.Helper()
	require.Equal(t, "quoted-printable", m.Header.Get("Content-Transfer-Encoding"))
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}
