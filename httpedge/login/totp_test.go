package login

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/proto/directorypb"
)

// TestCodes: the values of RFC 6238, appendix B, their last six digits.
func TestCodes(t *testing.T) {
	t.Parallel()
	secret := []byte("12345678901234567890")
	for at, code := range map[int64]string{
		59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037", 20000000000: "353130",
	} {
		now := time.Unix(at, 0)
		step, right := CheckCode(secret, code, now)
		require.True(t, right, at)
		require.Equal(t, at/30, step)
		for _, off := range []time.Duration{-30 * time.Second, 30 * time.Second} {
			known, stillRight := CheckCode(secret, code[:3]+" "+code[3:], now.Add(off))
			require.True(t, stillRight)
			require.Equal(t, step, known, "the same code")
		}
		for _, off := range []time.Duration{-90 * time.Second, 90 * time.Second} {
			_, right = CheckCode(secret, code, now.Add(off))
			require.False(t, right)
		}
	}
	for _, bad := range []string{"", "28708", "2870822", "abcdef", "287082\x00"} {
		_, right := CheckCode(secret, bad, time.Unix(59, 0))
		require.False(t, right)
	}
}

func TestRecoveryCodes(t *testing.T) {
	t.Parallel()
	codes, hashes := NewRecoveryCodes()
	require.Len(t, codes, 10)
	for i, code := range codes {
		require.Regexp(t, "^[a-z2-7]{4}(-[a-z2-7]{4}){3}$", code)
		hash, ok := RecoveryHash(" " + code + " ")
		require.True(t, ok)
		require.Equal(t, hashes[i], hash)
	}
	_, ok := RecoveryHash("287082")
	require.False(t, ok)
}

// TestTickets: a ticket is of one purpose, of one secret, and over when its time is.
func TestTickets(t *testing.T) {
	t.Parallel()
	user := &directorypb.User{Id: "usr_1", TenantId: "t", SignIn: &directorypb.SignIn{Generation: 7}}
	tickets := NewTickets([]byte("0123456789abcdef0123456789abcdef"))
	now := time.Now()
	for _, purpose := range []Purpose{PasswordReset, SecondStep} {
		signed, err := tickets.Make(purpose, user, now)
		require.NoError(t, err)
		ticket, valid := tickets.Open(purpose, signed)
		require.True(t, valid)
		require.Equal(t, []any{"usr_1", "t", uint64(7)}, []any{ticket.UserID, ticket.TenantID, ticket.Generation})
		for _, other := range []Purpose{PasswordReset, SecondStep, ""} {
			if _, valid = tickets.Open(other, signed); other != purpose {
				require.False(t, valid)
			}
		}
		_, valid = NewTickets([]byte("another")).Open(purpose, signed)
		require.False(t, valid)
		_, valid = NewTickets(nil).Open(purpose, signed)
		require.False(t, valid)
		var claims sessionClaims
		require.Error(t, newSigner(tickets.secret, "").open(signed, now, &claims), "it is no session")
		late, err := tickets.Make(purpose, user, now.Add(-purpose.Lifetime()))
		require.NoError(t, err)
		_, valid = tickets.Open(purpose, late)
		require.False(t, valid)
	}
	none, err := NewTickets(nil).Make(PasswordReset, user, now)
	require.NoError(t, err)
	require.Empty(t, none)
}
