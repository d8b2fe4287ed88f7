package config

import (
	"net"
	"net/mail"
	"time"
)

// Mail configures how the server sends mails to people: links to reset a password, welcomes.
type Mail struct {
	// Mail server, host:port, e.g. smtp.example.com:587. Without one, mails are files in the folder outbox of the data
	// directory of the node that would send them: they hold links that let somebody in.
	Server string `key:"server"`
	// How the connection is encrypted: starttls (port 587), implicit (port 465) or none (only for a server on the same
	// machine or network). Nothing is sent to a server that does not encrypt as it should.
	TLS string `key:"tls" default:"starttls" one_of:"starttls,implicit,none"`
	// Certificates (PEM) that the mail server's is checked against, instead of the system's.
	CAFile string `key:"ca_file"`
	// Name by which the mail server knows this one; empty = it does not ask.
	User string `key:"user"`
	// Password of user.
	Password Secret `key:"password"`
	// Sender of all mails.
	From string `key:"from" default:"Parley <no-reply@localhost>"`
	// Time limit of one mail, the connection included. What fails is tried again for about an hour.
	Timeout time.Duration `key:"timeout" default:"20s" range:"100ms..30s"`
	// Mails within an hour, in the whole cluster, that are asked for by people who are not signed in; further requests
	// are 429, and who registers gets no welcome.
	MaxPerHour int `key:"max_per_hour" default:"10000" range:"1..10_000_000"`
	// Mails that are kept as files; the oldest are removed.
	MaxOutbox int `key:"max_outbox" default:"1000" range:"1..1_000_000"`
}

func (c *Config) checkMail(k *checker) {
	m := &c.Mail
	if _, err := mail.ParseAddress(m.From); err != nil {
		k.failf("mail.from", "%q is not an address such as Parley <parley@example.com>", m.From)
	}
	if m.Server != "" {
		if host, _, err := net.SplitHostPort(m.Server); err != nil || host == "" {
			k.failf("mail.server", "%q is not host:port", m.Server)
		}
	}
	if (m.User == "") != (m.Password.Reveal() == "") {
		k.failf("mail.user", "needs mail.password, and it needs a user")
	}
	if m.User != "" && m.TLS == "none" {
		k.failf("mail.tls", "a password is not sent without encryption")
	}
}
