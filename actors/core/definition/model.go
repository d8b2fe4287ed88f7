package definition

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"parley/actors/core/failure"
	"parley/actors/machine/rawjson"
	"parley/proto/agentpb"
)

// Drivers are how models can be called.
func Drivers() []string {
	return []string{"openai", "openai-compatible", DriverAzure, "openai-responses", "anthropic", "scripted"}
}

// DriverAzure calls each model at an address of its own.
const DriverAzure = "azure"

// CheckDriver says what the settings of a provider lack for its driver: a key must not go to a host that nobody named.
func CheckDriver(driver string, settings []byte) *failure.Failure {
	if driver != DriverAzure && driver != "openai-compatible" {
		return nil
	}
	if read, err := ParseProviderSettings(settings); err != nil || read.BaseURL == "" {
		return invalid(failure.Required).In("settings.baseUrl")
	}
	return nil
}

// Categories are what models can be for.
func Categories() []string {
	return []string{"llm", "embedding", "rerank", "stt", "tts", "ocr", "moderation"}
}

// Settings is a model's settings as far as agents read them. Times are milliseconds; what is
// absent or 0 is the server's default.
type Settings struct {
	Temperature         *float64        `json:"temperature,omitempty"`
	TopP                *float64        `json:"topP,omitempty"`
	MaxOutputTokens     int             `json:"maxOutputTokens,omitempty"`
	ContextTokens       int             `json:"contextTokens,omitempty"`
	FirstTokenTimeoutMs int64           `json:"firstTokenTimeoutMs,omitempty"`
	IdleTimeoutMs       int64           `json:"idleTimeoutMs,omitempty"`
	TotalTimeoutMs      int64           `json:"totalTimeoutMs,omitempty"`
	MaxRetries          *int            `json:"maxRetries,omitempty"` // 0 = none
	Script              json.RawMessage `json:"script,omitempty"`     // of a scripted model: agentpb.Script as JSON
	UnsupportedParams   json.RawMessage `json:"unsupportedParams,omitempty"`
}

// Pricing is what a model costs (document 3, 10.11): US dollars for one million tokens.
type Pricing struct {
	Currency           string   `json:"currency,omitempty"` // only USD is counted
	InputTokenPer1M    *float64 `json:"inputTokenPer1M,omitempty"`
	OutputTokenPer1M   *float64 `json:"outputTokenPer1M,omitempty"`
	CachedTokenPer1M   *float64 `json:"cachedTokenPer1M,omitempty"` // as input when absent
	InputSecondPer1K   *float64 `json:"inputSecondPer1K,omitempty"`
	OutputSecondPer1K  *float64 `json:"outputSecondPer1K,omitempty"`
	InputCharacterPer1 *float64 `json:"inputCharacterPer1M,omitempty"`
	PagePer1K          *float64 `json:"pagePer1K,omitempty"`
	ImagePer1K         *float64 `json:"imagePer1K,omitempty"`
}

// ProviderSettings is a provider's settings as far as the server reads them.
type ProviderSettings struct {
	BaseURL string            `json:"baseUrl,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Script  json.RawMessage   `json:"script,omitempty"` // of a scripted provider's models that have none
	// APIVersion is of driver azure; Organization is the account that the openai drivers name.
	APIVersion   string `json:"apiVersion,omitempty"`
	Organization string `json:"organization,omitempty"`
}

// sentSettings is all that a client may say of a model. What is stored may hold more, and other types: from before that was looked at.
type sentSettings struct {
	Settings

	UnsupportedParams         []string                   `json:"unsupportedParams"`
	AllowUnknownPassthrough   bool                       `json:"allowUnknownPassthrough"` // this and what follows: of the gateway (document 3, 10.1)
	RequestDefaults           map[string]json.RawMessage `json:"requestDefaults"`
	ExtraBody                 map[string]json.RawMessage `json:"extraBody"`
	DisableStreamingWithTools bool                       `json:"disableStreamingWithTools"`
	Dynamic                   json.RawMessage            `json:"dynamic"` // see package routing
}

// ReadSettings checks the settings that a client sent for a model.
func ReadSettings(raw []byte) ([]byte, *failure.Failure) {
	var settings sentSettings
	keys, refused := object("settings", raw)
	if refused == nil && len(keys) > 0 {
		refused = unmarshal("settings", raw, &settings)
	}
	if refused == nil {
		refused = settings.check()
	}
	if refused != nil {
		return nil, refused
	}
	return encodeKnown("settings", keys, settings)
}

// encodeKnown is an object as it is stored, if it holds nothing but members of a struct.
func encodeKnown(what string, keys map[string]json.RawMessage, members any) ([]byte, *failure.Failure) {
	encoded, refused := encode(what, keys)
	if refused != nil {
		return nil, refused
	}
	return encoded, onlyKnown(what, keys, members)
}

// onlyKnown refuses an object with members that a struct has not: what was misspelt would have no effect. Those that it has are taken from keys.
func onlyKnown(what string, keys map[string]json.RawMessage, members any) *failure.Failure {
	known := rawjson.NamesOf(reflect.TypeOf(members))
	maps.DeleteFunc(keys, func(name string, _ json.RawMessage) bool { return known.Is(name) })
	if _, refused := encode(what, keys); refused != nil {
		return refused // it says where credentials belong
	}
	if names := slices.Sorted(maps.Keys(keys)); len(names) > 0 {
		return invalid(failure.UnknownField).In(what).Param("name", failure.Shown(names[0]))
	}
	return nil
}

func (s *Settings) check() *failure.Failure {
	const maxTimeoutMs = 3_600_000
	switch {
	case s.Temperature != nil && (*s.Temperature < 0 || *s.Temperature > 2):
		return invalid(failure.OutOfRange).In("settings.temperature").Param("least", 0).Param("most", 2)
	case s.TopP != nil && (*s.TopP < 0 || *s.TopP > 1):
		return invalid(failure.OutOfRange).In("settings.topP").Param("least", 0).Param("most", 1)
	case s.MaxOutputTokens < 0 || s.MaxOutputTokens > maxTokens:
		return invalid(failure.OutOfRange).In("settings.maxOutputTokens").Param("least", 0).Param("most", maxTokens)
	case s.ContextTokens < 0 || s.ContextTokens > 10*maxTokens:
		return invalid(failure.OutOfRange).In("settings.contextTokens").Param("least", 0).Param("most", 10*maxTokens)
	case s.MaxRetries != nil && (*s.MaxRetries < 0 || *s.MaxRetries > 10):
		return invalid(failure.OutOfRange).In("settings.maxRetries").Param("least", 0).Param("most", 10)
	}
	for _, limit := range []int64{s.FirstTokenTimeoutMs, s.IdleTimeoutMs, s.TotalTimeoutMs} {
		if limit < 0 || limit > maxTimeoutMs {
			return invalid(failure.TimeoutOutOfRange).In("settings").Param("most", maxTimeoutMs)
		}
	}
	_, refused := ParseScript("settings.script", s.Script)
	return refused
}

// ParseScript reads what a scripted model does; nil when nothing is said.
func ParseScript(what string, raw []byte) (*agentpb.Script, *failure.Failure) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil //nolint:nilnil // a model without a script says its canned answers
	}
	script := new(agentpb.Script)
	if err := protojson.Unmarshal(raw, script); err != nil {
		return nil, invalid(failure.BadScript).In(what)
	}
	return script, nil
}

// ParseSettings reads a model's settings as they are stored.
func ParseSettings(stored []byte) (*Settings, error) {
	settings := new(Settings)
	if len(stored) == 0 {
		return settings, nil
	}
	return settings, json.Unmarshal(stored, settings)
}

// ReadPricing checks the prices that a client sent for a model.
func ReadPricing(raw []byte) ([]byte, *failure.Failure) {
	var pricing Pricing
	keys, refused := object("pricing", raw)
	if refused == nil && len(keys) > 0 {
		refused = unmarshal("pricing", raw, &pricing)
	}
	if refused != nil {
		return nil, refused
	}
	const most = 1e6
	for _, rate := range []*float64{
		pricing.InputTokenPer1M, pricing.OutputTokenPer1M, pricing.CachedTokenPer1M, pricing.InputSecondPer1K,
		pricing.OutputSecondPer1K, pricing.InputCharacterPer1, pricing.PagePer1K, pricing.ImagePer1K,
	} {
		if rate != nil && (*rate < 0 || *rate > most) {
			return nil, invalid(failure.PriceOutOfRange).In("pricing").Param("most", int64(most))
		}
	}
	return encodeKnown("pricing", keys, pricing)
}

// Price is what a stored price list says of tokens; nil when it says nothing, or not in US dollars.
func Price(stored []byte) (*agentpb.Price, error) {
	var pricing Pricing
	if len(stored) > 0 {
		if err := json.Unmarshal(stored, &pricing); err != nil {
			return nil, err
		}
	}
	if pricing.InputTokenPer1M == nil && pricing.OutputTokenPer1M == nil ||
		pricing.Currency != "" && !strings.EqualFold(pricing.Currency, "USD") {
		return nil, nil //nolint:nilnil // a model without a price
	}
	cached := pricing.CachedTokenPer1M
	if cached == nil {
		cached = pricing.InputTokenPer1M
	}
	return &agentpb.Price{
		InputNanoUsdPerMtok:       nano(pricing.InputTokenPer1M),
		CachedInputNanoUsdPerMtok: nano(cached),
		OutputNanoUsdPerMtok:      nano(pricing.OutputTokenPer1M),
	}, nil
}

// ParseProviderSettings reads a provider's settings as they are stored.
func ParseProviderSettings(stored []byte) (*ProviderSettings, error) {
	settings := new(ProviderSettings)
	if len(stored) == 0 {
		return settings, nil
	}
	return settings, json.Unmarshal(stored, settings)
}

// ReadProvider checks the settings and credentials that a client sent for a provider. Values of headers are secrets, too.
// Credentials that are not sent stay as they are stored; those that are null are taken away.
func ReadProvider(settings []byte, credentials map[string]*string, stored Sealed) (*ProviderDraft, *failure.Failure) {
	d := &ProviderDraft{Draft: Draft{given: map[string]string{}}}
	keys, refused := object("settings", settings)
	if refused != nil {
		return nil, refused
	}
	var sent ProviderSettings
	if len(keys) > 0 {
		if refused = unmarshal("settings", settings, &sent); refused != nil {
			return nil, refused
		}
	}
	sent.BaseURL = strings.TrimSpace(sent.BaseURL)
	if sent.BaseURL != "" && !isURL(sent.BaseURL) {
		return nil, invalid(failure.MustBeHTTPURL).In("settings.baseUrl")
	}
	if sent.Headers, refused = d.headers(providerSettings, sent.Headers); refused != nil {
		return nil, refused
	}
	if _, refused = ParseScript("settings.script", sent.Script); refused != nil {
		return nil, refused
	}
	for _, one := range []struct{ name, value string }{{"apiVersion", sent.APIVersion}, {"organization", sent.Organization}} {
		if len(one.value) > maxSettingText || !isHeaderValue(one.value) {
			return nil, invalid(failure.BadName).In("settings."+one.name).Param("what", "settings."+one.name).Param("most", maxSettingText)
		}
	}
	if refused = onlyKnown("settings", keys, sent); refused != nil {
		return nil, refused
	}
	var err error
	if d.Settings, err = json.Marshal(&sent); err != nil {
		return nil, invalid(failure.NotJSON).In("settings")
	}
	return d, d.credentials(credentials, stored)
}

// Moved says whether settings name another host than those that are stored: what was given for one is no business of the other.
// Settings that cannot be read have moved nothing.
func Moved(stored, sent []byte) bool {
	was, err := ParseProviderSettings(stored)
	is, broken := ParseProviderSettings(sent)
	return err == nil && broken == nil && Origin(was.BaseURL) != Origin(is.BaseURL)
}

// ProviderDraft is a provider as a client sent it, made ready to be stored.
type ProviderDraft struct {
	Draft
	Settings []byte
}

// Seal encrypts what the client gave and takes over from the stored secrets what it left as it was. Of a provider that has
// moved none is to be handed over: see Moved.
func (d *ProviderDraft) Seal(recordKey string, stored Sealed, seal func(secret []byte, about string) ([]byte, error)) (Sealed, error) {
	return d.seal(recordKey, stored, seal)
}

const (
	providerSettings = "settings"
	maxCredentials   = 16
	maxSettingText   = 128
	credentialPath   = "credentials."
)

func (d *ProviderDraft) credentials(sent map[string]*string, stored Sealed) *failure.Failure {
	for path := range stored {
		name, isCredential := strings.CutPrefix(path, credentialPath)
		if _, said := sent[name]; isCredential && !said {
			d.kept = append(d.kept, path)
		}
	}
	for name, value := range sent {
		path := credentialPath + name
		switch {
		case value == nil || strings.TrimSpace(*value) == "":
		case !isCredentialName(name):
			return invalid(failure.BadCredentialName).In("credentials").Param("name", name)
		case *value == Mask:
			d.kept, d.wanted = append(d.kept, path), append(d.wanted, path)
		case len(*value) > maxSecret || !isHeaderValue(strings.TrimSpace(*value)):
			return invalid(failure.BadNamedCredential).In("credentials").Param("name", name)
		default:
			d.given[path] = strings.TrimSpace(*value)
		}
	}
	if len(d.given)+len(d.kept) > maxCredentials+maxHeaders {
		return invalid(failure.TooManyCredentials).In("credentials").Param("most", maxCredentials)
	}
	return nil
}

func isCredentialName(name string) bool {
	return name != "" && len(name) <= 64 && strings.IndexFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
}

// ProviderRecordKey is what the secrets of a provider are about.
func ProviderRecordKey(projectID, key string) string { return "providers/" + projectID + "/" + key }

// Credentials are the names of the credentials that a provider has, in order.
func (s Sealed) Credentials() []string {
	var names []string
	for path := range s {
		if name, ok := strings.CutPrefix(path, credentialPath); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Credential is the one with which a provider is called: the first that is there (document 3, 7.11).
func (s Secrets) Credential() string {
	for _, name := range []string{"apiKey", "api_key", "token", "accessToken", "key", "secret"} {
		if s[credentialPath+name] != "" {
			return s[credentialPath+name]
		}
	}
	return ""
}

// ProviderHeaders puts the values back into the headers of a provider.
func (s Secrets) ProviderHeaders(masked map[string]string) map[string]string {
	return s.headers(providerSettings, masked)
}

// encode makes JSON of settings in which no credential may be.
func encode(what string, keys map[string]json.RawMessage) ([]byte, *failure.Failure) {
	text, err := json.Marshal(keys)
	if err != nil {
		return nil, invalid(failure.NotJSON).In(what)
	}
	if refused := noSecrets(what, text); refused != nil {
		return nil, refused
	}
	return text, nil
}
