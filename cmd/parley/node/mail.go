package node

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	netmail "net/mail"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"parley/actors"
	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/actors/core/feature"
	"parley/actors/delivery"
	"parley/actors/mail"
	"parley/actors/mailer"
	"parley/cmd/parley/node/ids"
	"parley/httpedge/dashboard"
	"parley/httpedge/login"
	"parley/proto/deliverypb"
	"parley/proto/failurepb"
	"parley/proto/mailpb"
)

// outboxFolder is where mails are kept as files, in the data directory.
const outboxFolder = "outbox"

// newMailKind makes the kind of mails, and what sends them.
func (n *Node) newMailKind(deliveries *actors.Deliveries) (actors.Kind, error) {
	send, err := n.newMailer()
	if err != nil {
		return actors.Kind{}, err
	}
	sender := deliveries.Callbacks(actors.CallbacksConfig{
		Name: "parley_actors_mails_total", Help: "Attempts to send a mail, by outcome.", Registerer: n.metrics,
	})
	return mail.New(sender, func(letter *mailpb.Letter, id string) delivery.Do {
		return func(ctx context.Context) (*deliverypb.Report, string) { return n.sendMail(ctx, send, letter, id) }
	}), nil
}

// newMailer makes what sends mails: to the mail server, or into the outbox where there is none.
func (n *Node) newMailer() (func(context.Context, mailer.Message) error, error) {
	settings := &n.config.Mail
	from, err := netmail.ParseAddress(settings.From)
	if err != nil {
		return nil, fmt.Errorf("mail.from: %w", err)
	}
	if settings.Server == "" {
		folder, failed := mailer.NewFolder(filepath.Join(n.config.DataDir, outboxFolder), from, settings.MaxOutbox)
		if failed != nil {
			return nil, failed
		}
		return folder.Send, nil
	}
	roots, err := certificates(settings.CAFile)
	if err != nil {
		return nil, fmt.Errorf("mail.ca_file: %w", err)
	}
	server, err := mailer.NewSMTP(mailer.SMTPConfig{
		Server: settings.Server, TLS: mailer.TLS(settings.TLS), Roots: roots, User: settings.User, Password: settings.Password.Reveal(),
		From: from, Timeout: settings.Timeout,
	})
	if err != nil {
		return nil, fmt.Errorf("mail.server: %w", err)
	}
	return server.Send, nil
}

// certificates reads those in a file, nil when there is no file.
func certificates(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // the system's
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("there is no certificate in it")
	}
	return roots, nil
}

// sendMail makes one attempt. What a mail server says goes into the log of this node only: it may name whom the mail is for.
func (n *Node) sendMail(ctx context.Context, send func(context.Context, mailer.Message) error, letter *mailpb.Letter, id string) (*deliverypb.Report, string) {
	letters := n.edge.letters.Load()
	if letters == nil { // the node is only starting
		return &deliverypb.Report{Unsent: true}, "crowded"
	}
	made, err := letters.Compose(ctx, letter)
	switch {
	case errors.Is(err, dashboard.ErrNobody):
		return &deliverypb.Report{Hopeless: true}, "nobody"
	case err == nil:
		err = send(ctx, mailer.Message{ID: id, At: time.UnixMilli(letter.GetAskedAt()), To: made.To, Subject: made.Subject, Text: made.Text})
	}
	if err == nil {
		return &deliverypb.Report{Ok: true}, "sent"
	}
	if ctx.Err() == nil {
		n.log.Warn("a mail was not sent", slog.String("mail", id), slog.Any("err", err))
	}
	return &deliverypb.Report{Hopeless: errors.Is(err, mailer.ErrHopeless), Error: "could not be sent"}, "failed"
}

// newLetters makes what composes mails.
func (n *Node) newLetters(settings *login.Config) *dashboard.Letters {
	at := settings.Reached.URL
	if at == nil {
		at = &url.URL{Scheme: "http", Host: n.network.listener.Addr().String()}
	}
	return &dashboard.Letters{Accounts: n.directory.accounts.Load(), Tickets: login.NewTickets(settings.Secret), URL: at}
}

// mails implements dashboard.Mails: a mail is an entity in any shard.
type mails struct{ *Node }

// Send keeps a mail, whose first attempt its owner makes at once.
func (m mails) Send(ctx context.Context, letter *mailpb.Letter) error {
	if !m.features.On(feature.Webhooks) { // the level of the release that brought mails, too
		return failure.New(failurepb.Code_UNAVAILABLE, failure.AttemptsNotCounted)
	}
	id := ids.New(m.shards).NewID("mail")
	_, err := entity.Ask[*mailpb.Reply](ctx, &client{m.Node}, id, &mailpb.Command{Id: id, Body: &mailpb.Command_Send{Send: letter}})
	if err != nil {
		m.log.Warn("a mail was not kept to be sent", slog.String("mail", id), slog.Any("err", err))
	}
	return err
}
