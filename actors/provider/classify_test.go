package provider

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClasses(t *testing.T) {
	for _, c := range []struct {
		status  int
		message string
		class   Class
		again   bool
		outage  bool
		asked   bool // it may cost something
	}{
		{400, "no", Invalid, false, false, false},
		{400, "This model's maximum context length is 8 tokens", ContextLength, false, false, false},
		{403, "violates our content policy", ContentPolicy, false, false, false},
		{400, "Invalid API key", Credentials, false, false, false},
		{401, "no", Credentials, false, false, false},
		{402, "pay first", Payment, false, false, false},
		{403, "no", Forbidden, false, false, false},
		{404, "what?", NotFound, false, false, false},
		{400, "The model `x` does not exist", NotFound, false, false, false},
		{408, "late", RequestTimeout, true, false, false},
		{409, "again", Conflict, true, false, false},
		{413, "long", Other, false, false, false},
		{418, "teapot", Other, false, false, false},
		{422, "no", Unprocessable, false, false, false},
		{429, "slow down", RateLimited, true, false, false},
		{429, "You exceeded your current quota", Quota, false, false, false},
		{402, "Insufficient Balance", Quota, false, false, false},
		{400, "Your credit balance is too low to access the API. Please go to Plans & Billing", Quota, false, false, false},
		{403, "insufficient_quota", Quota, false, false, false},
		{0, "You exceeded your current quota", Quota, false, false, false},
		{500, "maximum context", ServerError, true, true, false},
		{502, "", ServerError, true, true, false},
		{503, "", Overloaded, true, true, false},
		{504, "", Timeout, true, true, true},
		{529, "", Overloaded, true, true, false},
		{700, "", ServerError, true, true, false},
		{0, "something", Unnamed, true, false, false},
		{0, "missing required parameter", Invalid, false, false, false},
	} {
		f := Complaint(c.status, fmt.Appendf(nil, `{"error":{"message":%q}}`, c.message), Redactor{})
		require.Equal(t, c.class, f.Class, "%d %s", c.status, c.message)
		require.Equal(t, c.again, f.Again(), "%d %s", c.status, c.message)
		require.Equal(t, c.outage, f.Outage(), "%d %s", c.status, c.message)
		require.Equal(t, c.asked, f.Unanswered(), "%d %s", c.status, c.message)
		require.Equal(t, c.status == 0, f.InStream)
	}
	inner := Complaint(0, []byte(`{"error":{"code":429,"message":"slow"}}`), Redactor{})
	require.Equal(t, RateLimited, inner.Class, "the number is that of a status")
	inner.Retry, inner.Class = "true", Quota
	require.False(t, inner.Again(), "whatever it says: what is used up stays so")
}
