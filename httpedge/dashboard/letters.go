package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"parley/actors/core/identity"
	"parley/httpedge/login"
	"parley/proto/directorypb"
	"parley/proto/mailpb"
)

// ErrNobody says that nobody is to get a letter, not any more or never.
var ErrNobody = errors.New("dashboard: nobody is to get this letter")

// Mail is a letter as it is sent.
type Mail struct{ To, Subject, Text string }

// Letters composes mails, with what the node knows when they are sent.
type Letters struct {
	Accounts *identity.Accounts
	Tickets  *login.Tickets
	// URL is where people find the server. It never comes from a request: who asks for a mail must not choose where its link leads.
	URL *url.URL
}

// Compose returns the mail of a letter.
func (l *Letters) Compose(ctx context.Context, letter *mailpb.Letter) (Mail, error) {
	switch letter.GetTemplate() {
	case mailpb.Template_WELCOME:
		return l.welcome(ctx, letter)
	case mailpb.Template_PASSWORD_RESET:
		return l.reset(ctx, letter)
	case mailpb.Template_NO_TEMPLATE:
	}
	return Mail{}, ErrNobody
}

func (l *Letters) link(page string) string {
	return l.URL.JoinPath(page).String()
}

// welcome goes to who has registered a company.
func (l *Letters) welcome(ctx context.Context, letter *mailpb.Letter) (Mail, error) {
	user, tenant, err := l.Accounts.Addressee(ctx, letter.GetUserId())
	if err != nil || user == nil || user.GetEmail() == "" {
		return Mail{}, orNobody(err)
	}
	return Mail{
		To: user.GetEmail(), Subject: "Welcome to Parley, " + tenant.GetName(),
		Text: fmt.Sprintf("Hello %s,\n\n%s is registered.\n\nSign in:   %s\nCompany:   %s\nEmail:     %s\nLicence:   %s\n",
			user.GetName(), tenant.GetName(), l.link("/"), tenant.GetSlug(), user.GetEmail(), l.Accounts.Licence(tenant).Tier()),
	}, nil
}

// reset goes to whoever signs in with an email and a password. Its links are made now.
func (l *Letters) reset(ctx context.Context, letter *mailpb.Letter) (Mail, error) {
	asked := time.UnixMilli(letter.GetAskedAt())
	if time.Since(asked) >= login.PasswordReset.Lifetime() {
		return Mail{}, ErrNobody
	}
	users, err := l.resettable(ctx, letter)
	if err != nil || len(users) == 0 {
		return Mail{}, orNobody(err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "Hello,\n\nsomebody, perhaps you, has asked for a new password for %s.\n", users[0].GetEmail())
	for _, user := range users {
		_, tenant, err := l.Accounts.Addressee(ctx, user.GetId())
		if err != nil {
			return Mail{}, err
		}
		ticket, err := l.Tickets.Make(login.PasswordReset, user, asked)
		if err != nil || ticket == "" {
			return Mail{}, orNobody(err)
		}
		// What is behind # is sent to no server and stands in no log.
		fmt.Fprintf(&text, "\nChoose one for %s (%s) within an hour of asking; the link works once:\n\n%s#token=%s\n",
			tenant.GetName(), tenant.GetSlug(), l.link("/reset-password"), ticket)
	}
	text.WriteString("\nIf it was not you, do nothing: your password stays as it is.\n")
	return Mail{To: users[0].GetEmail(), Subject: "Reset your Parley password", Text: text.String()}, nil
}

func (l *Letters) resettable(ctx context.Context, letter *mailpb.Letter) ([]*directorypb.User, error) {
	tenantID := ""
	if letter.GetSlug() != "" {
		tenant, err := l.Accounts.TenantBySlug(letter.GetSlug())
		if err != nil || tenant == nil {
			return nil, err
		}
		tenantID = tenant.GetId()
	}
	return l.Accounts.Candidates(ctx, letter.GetEmail(), tenantID)
}

func orNobody(err error) error {
	if err != nil {
		return err
	}
	return ErrNobody
}
