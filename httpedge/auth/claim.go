package auth

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"parley/actors/core/failure"
)

// check validates the registered claims and returns the expiry, zero for none.
func (j *JWT) check(claims map[string]any, now time.Time) (time.Time, error) {
	expiry, hasExpiry, err := dateClaim(claims, "exp")
	if err != nil {
		return time.Time{}, err
	}
	if j.config.RequireExpiry && !hasExpiry {
		return time.Time{}, refuse(failure.TokenWithoutExpiry)
	}
	if hasExpiry && !now.Before(expiry.Add(j.config.Leeway)) {
		return time.Time{}, refuse(failure.TokenExpired)
	}
	notBefore, hasNotBefore, err := dateClaim(claims, "nbf")
	if err != nil {
		return time.Time{}, err
	}
	if hasNotBefore && now.Before(notBefore.Add(-j.config.Leeway)) {
		return time.Time{}, refuse(failure.TokenNotYetValid)
	}
	if issuer, _ := claims["iss"].(string); j.config.Issuer != "" && issuer != j.config.Issuer {
		return time.Time{}, refuse(failure.InvalidIssuer)
	}
	if len(j.config.Audiences) > 0 && !slices.ContainsFunc(audiences(claims), func(name string) bool {
		return slices.Contains(j.config.Audiences, name)
	}) {
		return time.Time{}, refuse(failure.InvalidAudience)
	}
	return expiry, nil
}

// dateClaim reads a NumericDate. If present it must be a number: a token with some other form of "never" must not count
// as one without expiry.
func dateClaim(claims map[string]any, name string) (time.Time, bool, error) {
	value, ok := claims[name]
	if !ok {
		return time.Time{}, false, nil
	}
	number, ok := value.(json.Number)
	if !ok {
		return time.Time{}, false, refuse(failure.InvalidJWT)
	}
	seconds, err := number.Float64()
	if err != nil {
		return time.Time{}, false, refuse(failure.InvalidJWT)
	}
	const farthest = 1 << 40 // year 36,812: keeps time arithmetic within its range
	return time.Unix(int64(math.Min(math.Max(seconds, -farthest), farthest)), 0), true, nil
}

// audiences reads aud, which is one name or a list.
func audiences(claims map[string]any) []string {
	switch value := claims["aud"].(type) {
	case string:
		return []string{value}
	case []any:
		names := make([]string, 0, len(value))
		for _, item := range value {
			if name, ok := item.(string); ok {
				names = append(names, name)
			}
		}
		return names
	}
	return nil
}

// userID finds the user: the configured claim or function, else sub, userId, user_id.
func (j *JWT) userID(claims map[string]any) string {
	if j.config.UserID != nil {
		if userID := j.config.UserID(claims); userID != "" {
			return userID
		}
	}
	if j.config.UserIDClaim != "" {
		if userID := claimText(claims, j.config.UserIDClaim); userID != "" {
			return userID
		}
	}
	for _, name := range []string{"sub", "userId", "user_id"} {
		if userID := claimText(claims, name); userID != "" {
			return userID
		}
	}
	return ""
}

// claimText returns a claim that is text or a number. The whole name comes first, for claims that are named by a URL;
// then its dots reach into objects.
func claimText(claims map[string]any, name string) string {
	switch value := claims[name].(type) {
	case string:
		return value
	case json.Number:
		return value.String()
	}
	outer, inner, ok := strings.Cut(name, ".")
	if object, isObject := claims[outer].(map[string]any); ok && isObject {
		return claimText(object, inner)
	}
	return ""
}
