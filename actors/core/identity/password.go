package identity

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/actors/core/failure"
	"parley/proto/failurepb"
)

// Limits of passwords. bcrypt ignores what comes after 72 bytes, so longer passwords are refused rather than cut.
const (
	minPassword = 8 // characters
	MaxPassword = 72
)

// CheckPassword refuses passwords that the policy does not allow (document 3, 5.1): at least 8 characters, among them an upper and
// a lower case letter, a digit and another character.
func CheckPassword(password string) error {
	var upper, lower, digit, special bool
	for _, r := range password {
		switch {
		case unicode.IsUpper(r):
			upper = true
		case unicode.IsLower(r):
			lower = true
		case unicode.IsDigit(r):
			digit = true
		case !unicode.IsLetter(r):
			special = true
		}
	}
	var problems []string
	for _, rule := range []struct {
		kept    bool
		problem string
	}{
		{utf8.RuneCountInString(password) >= minPassword, "Password must be at least 8 characters long"},
		{len(password) <= MaxPassword, "Password must be at most 72 bytes long"},
		{upper, "Password must contain at least one uppercase letter"},
		{lower, "Password must contain at least one lowercase letter"},
		{digit, "Password must contain at least one number"},
		{special, "Password must contain at least one special character"},
	} {
		if !rule.kept {
			problems = append(problems, rule.problem)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return failure.New(failurepb.Code_VALIDATION, failure.WeakPassword).Param("problems", strings.Join(problems, ". "))
}
