package mailer

import (
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"
	"unicode"

	// go-mail: SMTP with mandatory TLS and MIME, which the standard library has in parts only; the best kept of its kind.
	gomail "github.com/wneessen/go-mail"
)

// Message is a mail of plain text to one address.
type Message struct {
	ID      string // the same in every attempt, so that who gets it twice can tell
	At      time.Time
	To      string
	Subject string
	Text    string
}

// ErrHopeless says that no further attempt to send a message could be different.
var ErrHopeless = errors.New("mailer: refused for good")

// build makes the MIME message. Whatever comes from people cannot add a header: control characters are dropped.
func build(from *mail.Address, m Message) (*gomail.Msg, error) {
	to, err := mail.ParseAddress(m.To)
	if err != nil || strings.ContainsFunc(m.To, unicode.IsControl) {
		return nil, fmt.Errorf("%w: not an address", ErrHopeless)
	}
	made := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	made.FromMailAddress(from)
	made.ToMailAddress(&mail.Address{Address: to.Address})
	made.Subject(oneLine(m.Subject))
	_, domain, _ := strings.Cut(from.Address, "@")
	made.SetMessageIDWithValue(m.ID + "@" + domain)
	made.SetDateWithValue(m.At)
	made.SetGenHeader("Auto-Submitted", "auto-generated")
	made.SetBodyString(gomail.TypeTextPlain, m.Text)
	return made, nil
}

func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}
