package mailer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"slices"
	"strconv"
	"time"

	// go-mail: see message.go.
	gomail "github.com/wneessen/go-mail"
)

// TLS says how the connection to the mail server is encrypted.
type TLS string

// Kinds of encryption. With each but NoTLS nothing is sent before the server has shown a certificate of its name.
const (
	StartTLS    TLS = "starttls"
	ImplicitTLS TLS = "implicit"
	NoTLS       TLS = "none"
)

// SMTPConfig is the settings of SMTP.
type SMTPConfig struct {
	Server         string // host:port
	TLS            TLS
	Roots          *x509.CertPool // nil = the system's
	User, Password string         // "" = it is not asked for
	From           *mail.Address
	Timeout        time.Duration // of one message, the connection included
}

// maxConnections is how many messages are sent at a time: mail servers allow few connections of one client.
const maxConnections = 4

// SMTP sends messages to a mail server. It is safe for concurrent use.
type SMTP struct {
	config SMTPConfig
	host   string
	port   int
	places chan struct{}
}

// NewSMTP returns what sends by SMTP.
func NewSMTP(config SMTPConfig) (*SMTP, error) {
	host, number, err := net.SplitHostPort(config.Server)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return nil, err
	}
	if config.From == nil || config.Timeout <= 0 {
		return nil, errors.New("mailer: From and Timeout are required")
	}
	s := &SMTP{config: config, host: host, port: int(port), places: make(chan struct{}, maxConnections)}
	_, err = s.client(context.Background()) // only whether the settings fit; nothing is dialled
	return s, err
}

func (s *SMTP) client(ctx context.Context) (*gomail.Client, error) {
	options := []gomail.Option{
		gomail.WithPort(s.port), gomail.WithTimeout(s.config.Timeout), gomail.WithoutNoop(),
		gomail.WithTLSConfig(s.tls()),
		gomail.WithDialContextFunc(func(dialing context.Context, network, address string) (net.Conn, error) {
			return s.dial(dialing, ctx, network, address)
		}),
	}
	switch s.config.TLS {
	case ImplicitTLS:
		options = append(options, gomail.WithSSL())
	case NoTLS:
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS))
	case StartTLS:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	default:
		return nil, fmt.Errorf("mailer: no such TLS: %q", s.config.TLS)
	}
	if s.config.User != "" {
		kind := gomail.SMTPAuthAutoDiscover
		if s.config.TLS == ImplicitTLS { // the library does not see that the connection is encrypted
			kind = gomail.SMTPAuthPlain
		}
		options = append(options, gomail.WithSMTPAuth(kind),
			gomail.WithUsername(s.config.User), gomail.WithPassword(s.config.Password))
	}
	return gomail.NewClient(s.host, options...)
}

// dial connects. The end of the message's time ends the connection, whatever it waits for: the library allows each step as long.
func (s *SMTP) dial(dialing, message context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(dialing, network, address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(message, func() { _ = conn.Close() }) // or it is closed already
	if s.config.TLS == ImplicitTLS {
		return tls.Client(conn, s.tls()), nil
	}
	return conn, nil
}

func (s *SMTP) tls() *tls.Config {
	return &tls.Config{ServerName: s.host, RootCAs: s.config.Roots, MinVersion: tls.VersionTLS12}
}

// noSuchMailbox are the answers of a mail server that no setting and no time changes (RFC 5321).
func noSuchMailbox() []int { return []int{550, 551, 553, 556} }

// Send sends a message, once there is room for it.
func (s *SMTP) Send(ctx context.Context, m Message) error {
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	message, err := build(s.config.From, m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	client, err := s.client(ctx)
	if err != nil {
		return err
	}
	err = client.DialAndSendWithContext(ctx, message)
	refused, is := errors.AsType[*gomail.SendError](err)
	if is && refused.Reason == gomail.ErrSMTPRcptTo && slices.Contains(noSuchMailbox(), refused.ErrorCode()) {
		return fmt.Errorf("%w: %w", ErrHopeless, err)
	}
	if message.IsDelivered() { // it was taken; only the farewell failed
		return nil
	}
	return err
}
