package deliver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// SignatureHeader carries the signature of a pushed body.
const SignatureHeader = "X-Service-Signature"

// Sign returns the signature of a body sent at the given time: `t=<Unix seconds>,v1=<hex HMAC-SHA256 of "<t>.<body>">` under
// the whole secret (document 5, section 9). The receiver should refuse an old t.
func Sign(secret string, body []byte, at time.Time) string {
	seconds := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(seconds + "."))
	mac.Write(body)
	return "t=" + seconds + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
