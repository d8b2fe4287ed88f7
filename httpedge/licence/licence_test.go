package licence_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jws"
	"github.com/stretchr/testify/require"

	"parley/actors/core/access"
	"parley/actors/core/failure"
	"parley/httpedge/licence"
)

type claims map[string]any

func whole() claims {
	return claims{"licenseId": "lic-1", "licenseType": "PROFESSIONAL", "tenantId": "t1", "exp": 1_900_000_000}
}

func (c claims) with(name string, value any) claims {
	c[name] = value
	return c
}

func (c claims) without(name string) claims {
	delete(c, name)
	return c
}

func sign(t *testing.T, algorithm jwa.SignatureAlgorithm, key any, of any) string {
	t.Helper()
	payload, err := json.Marshal(of)
	require.NoError(t, err)
	signed, err := jws.Sign(payload, jws.WithKey(algorithm, key))
	require.NoError(t, err)
	return string(signed)
}

func public(t *testing.T, key crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func reader(t *testing.T, config licence.Config) *licence.Reader {
	t.Helper()
	r, err := licence.New(config)
	require.NoError(t, err)
	return r
}

type signers struct {
	ed       ed25519.PrivateKey
	p256     *ecdsa.PrivateKey
	p384     *ecdsa.PrivateKey
	rsa      *rsa.PrivateKey
	publicOf map[string][]byte
}

func makeKeys(t *testing.T) *signers {
	t.Helper()
	s := &signers{}
	var err error
	_, s.ed, err = ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	s.p256, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	s.p384, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	s.rsa, err = rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	s.publicOf = map[string][]byte{"ed": public(t, s.ed.Public()), "p256": public(t, s.p256.Public()), "rsa": public(t, s.rsa.Public())}
	return s
}

// TestAlgorithms: four algorithms, each under its own kind of key, and nothing else.
func TestAlgorithms(t *testing.T) {
	s := makeKeys(t)
	keys := map[string]string{
		"EdDSA": sign(t, jwa.EdDSA(), s.ed, whole()), "ES256": sign(t, jwa.ES256(), s.p256, whole()),
		"RS256": sign(t, jwa.RS256(), s.rsa, whole()), "PS256": sign(t, jwa.PS256(), s.rsa, whole()),
		"RS512": sign(t, jwa.RS512(), s.rsa, whole()), "ES384": sign(t, jwa.ES384(), s.p384, whole()),
	}
	fitting := map[string]string{"EdDSA": "ed", "ES256": "p256", "RS256": "rsa", "PS256": "rsa"}
	for name, kind := range s.publicOf { // confusion: the text of the public key as an HMAC secret
		keys["HS256 with "+name] = sign(t, jwa.HS256(), kind, whole())
	}
	body, err := json.Marshal(whole())
	require.NoError(t, err)
	encode := base64.RawURLEncoding.EncodeToString
	keys["none"] = encode([]byte(`{"alg":"none"}`)) + "." + encode(body) + "."
	for _, algorithm := range []string{"EdDSA", "ES256", "RS256", "PS256"} { // the signature of one under the name of another
		_, rest, _ := strings.Cut(keys[algorithm], ".")
		for _, other := range []string{"none", "HS256", "RS256", "ES256", "EdDSA", "PS256"} {
			if other != algorithm {
				keys[algorithm+" called "+other] = encode([]byte(`{"alg":"`+other+`"}`)) + "." + rest
			}
		}
	}
	critical := encode([]byte(`{"alg":"EdDSA","crit":["exp"],"exp":1}`)) + "." + encode(body)
	keys["critical"] = critical + "." + encode(ed25519.Sign(s.ed, []byte(critical)))
	keys["two_signatures"] = keys["EdDSA"] + "." + keys["EdDSA"]
	keys["changed"] = strings.Replace(keys["EdDSA"], ".", ".A", 1)
	keys["text"] = strings.Repeat("a", 4000)
	keys["dots"] = strings.Repeat(".", 4000)
	for kind, of := range s.publicOf {
		r := reader(t, licence.Config{PublicKey: of})
		for name, key := range keys {
			for range 2 { // read, remembered
				offline, refused := r.Read(key)
				if fitting[name] == kind {
					require.Nil(t, refused, "%s under %s", name, kind)
					require.Equal(t, access.Professional, offline.Tier)
					continue
				}
				require.NotNil(t, refused, "%s under %s", name, kind)
				require.Equal(t, failure.LicenseKeyUntrusted, refused.Reason)
			}
		}
	}
	all := reader(t, licence.Config{PublicKey: []byte(string(s.publicOf["ed"]) + "\n" + string(s.publicOf["p256"]) + string(s.publicOf["rsa"]))})
	for _, name := range []string{"EdDSA", "ES256", "RS256", "PS256"} {
		_, refused := all.Read(keys[name])
		require.Nil(t, refused, name)
	}
}

func TestClaims(t *testing.T) {
	s := makeKeys(t)
	r := reader(t, licence.Config{PublicKey: s.publicOf["ed"], Issuer: "sales", Audience: "parley"})
	good := func() claims { return whole().with("iss", "sales").with("aud", []string{"x", "parley"}) }
	for name, c := range map[string]struct {
		claims any
		text   string // "" = it is good
	}{
		"good":              {claims: good()},
		"one_audience":      {claims: good().with("aud", "parley")},
		"slug_only":         {claims: good().without("tenantId").with("tenantSlug", "acme")},
		"no_expiry":         {claims: good().without("exp")},
		"limits":            {claims: good().with("limits", claims{"maxProjects": 7})},
		"unlimited":         {claims: good().with("limits", claims{"maxProjects": -1})},
		"other_limits":      {claims: good().with("limits", claims{"maxOthers": 7})},
		"no_id":             {good().without("licenseId"), "The license key says nothing of licenseId"},
		"no_type":           {good().without("licenseType"), "The license key says nothing of licenseType"},
		"no_tenant":         {good().without("tenantId"), "The license key says nothing of tenantId or tenantSlug"},
		"unknown_type":      {good().with("licenseType", "GOLD"), "The license key is not valid here: licenseType"},
		"lower_case":        {good().with("licenseType", "professional"), "The license key is not valid here: licenseType"},
		"long_id":           {good().with("licenseId", strings.Repeat("i", 257)), "The license key is not valid here: licenseId"},
		"issuer":            {good().with("iss", "others"), "The license key is not valid here: iss"},
		"no_issuer":         {good().without("iss"), "The license key is not valid here: iss"},
		"audience":          {good().with("aud", []string{"y"}), "The license key is not valid here: aud"},
		"exp_negative":      {good().with("exp", -1), "The license key is not valid here: exp"},
		"exp_huge":          {good().with("exp", 1e300), "The license key is not valid here: exp"},
		"exp_text":          {good().with("exp", "tomorrow"), "The license key does not hold a license"},
		"nbf_zero":          {good().with("nbf", 0), "The license key is not valid here: nbf"},
		"half_a_project":    {good().with("limits", claims{"maxProjects": 1.5}), "The license key is not valid here: limits.maxProjects"},
		"projects_negative": {good().with("limits", claims{"maxProjects": -2}), "The license key is not valid here: limits.maxProjects"},
		"projects_huge":     {good().with("limits", claims{"maxProjects": 1e9}), "The license key is not valid here: limits.maxProjects"},
		"limits_text":       {good().with("limits", "many"), "The license key does not hold a license"},
		"a_list":            {[]int{1}, "The license key does not hold a license"},
		"null":              {nil, "The license key says nothing of licenseId"},
	} {
		t.Run(name, func(t *testing.T) {
			offline, refused := r.Read(sign(t, jwa.EdDSA(), s.ed, c.claims))
			if c.text != "" {
				require.Nil(t, offline)
				require.Equal(t, c.text, refused.DefaultText())
				return
			}
			require.Nil(t, refused)
			require.Equal(t, "lic-1", offline.ID)
		})
	}
	offline, refused := r.Read(sign(t, jwa.EdDSA(), s.ed, good().with("nbf", 1_800_000_000.5).with("limits", claims{"maxProjects": 7})))
	require.Nil(t, refused)
	require.Equal(t, &access.Offline{
		ID: "lic-1", Tier: access.Professional, TenantID: "t1", NotBefore: time.UnixMilli(1_800_000_000_500), Expires: time.Unix(1_900_000_000, 0),
		MaxProjects: 7, Bounded: true,
	}, offline)
}

func TestPublicKeys(t *testing.T) {
	s := makeKeys(t)
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(s.ed)
	require.NoError(t, err)
	for name, text := range map[string][]byte{
		"none": nil, "text": []byte("hello"), "p384": public(t, s.p384.Public()), "small": public(t, small.Public()),
		"private":        pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		"something_else": append(public(t, s.ed.Public()), "and more"...),
		"too_many":       []byte(strings.Repeat(string(s.publicOf["ed"]), 9)),
	} {
		_, err := licence.New(licence.Config{PublicKey: text})
		require.Error(t, err, name)
	}
	reader(t, licence.Config{PublicKey: []byte(strings.Repeat(string(s.publicOf["ed"]), 8))})
}

// TestManyKeys: what is remembered of keys is bounded, and right after it was forgotten.
func TestManyKeys(t *testing.T) {
	s := makeKeys(t)
	r := reader(t, licence.Config{PublicKey: s.publicOf["ed"]})
	good := sign(t, jwa.EdDSA(), s.ed, whole())
	for i := range 5000 {
		_, refused := r.Read(strings.Repeat("x", i+1))
		require.NotNil(t, refused)
	}
	_, refused := r.Read(good)
	require.Nil(t, refused)
}
