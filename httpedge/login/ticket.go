package login

import (
	"time"

	"parley/proto/directorypb"
)

// Purpose is what a ticket lets its bearer do. The tickets of each purpose are signed with a key of their own.
type Purpose string

// PasswordReset lets whoever bears a ticket set its user's password (document 3, 5.1).
const PasswordReset Purpose = "password-reset"

// SecondStep lets whoever bears a ticket sign in with a code: they have shown the password, or came from the provider.
const SecondStep Purpose = "second-step"

// Lifetime is how long tickets of a purpose are valid.
func (p Purpose) Lifetime() time.Duration {
	const long, short = time.Hour, 5 * time.Minute
	if p == PasswordReset {
		return long
	}
	return short
}

// Ticket is a permission to do one thing for one user. It is void once the user's sessions were ended, as they are by a new password:
// so a password is reset once at most, and nothing is stored of it.
type Ticket struct {
	Purpose    Purpose `json:"purpose"`
	UserID     string  `json:"userId"`
	TenantID   string  `json:"tenantId"`
	Generation uint64  `json:"generation"`
	Issued     int64   `json:"iat"`
	Expires    int64   `json:"exp"`
}

// Tickets makes and opens tickets. Without a secret there are none.
type Tickets struct{ secret []byte }

// NewTickets returns the tickets under the secret of sessions.
func NewTickets(secret []byte) *Tickets { return &Tickets{secret} }

// Make returns a ticket that was asked for at a time, "" where there is no secret to sign it with.
func (t *Tickets) Make(purpose Purpose, user *directorypb.User, at time.Time) (string, error) {
	if len(t.secret) == 0 {
		return "", nil
	}
	return newSigner(t.secret, string(purpose)).sign(Ticket{
		Purpose: purpose, UserID: user.GetId(), TenantID: user.GetTenantId(), Generation: user.GetSignIn().GetGeneration(),
		Issued: at.Unix(), Expires: at.Add(purpose.Lifetime()).Unix(),
	})
}

// Open returns a ticket of a purpose that is still valid; false = it is not, or is none.
func (t *Tickets) Open(purpose Purpose, signed string) (ticket Ticket, valid bool) {
	if len(t.secret) == 0 {
		return ticket, false
	}
	err := newSigner(t.secret, string(purpose)).open(signed, time.Now(), &ticket)
	return ticket, err == nil && ticket.Purpose == purpose
}
