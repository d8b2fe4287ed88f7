package catalog

import (
	"cmp"
	"encoding/json"
	"net/url"
	"strings"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/definition"
	"parley/proto/agentpb"
	"parley/proto/directorypb"
)

// connectedTimeoutMs bounds a call of a connected agent (document 3, 7.11).
const connectedTimeoutMs = 120_000

// model compiles a model that is called through a provider.
func (c *Compiler) model(record *directorypb.Model, provider *directorypb.Provider) (*agentpb.Model, error) {
	settings, err := definition.ParseSettings(record.GetSettings())
	if err != nil {
		return nil, err
	}
	shared, err := definition.ParseProviderSettings(provider.GetSettings())
	if err != nil {
		return nil, err
	}
	secrets, err := c.providerSecrets(provider)
	if err != nil {
		return nil, err
	}
	model := proto.CloneOf(c.env.Defaults.Model)
	model.Provider, model.Name, model.Key = driver(provider.GetDriver()), record.GetModelId(), record.GetKey()
	model.BaseUrl, model.ApiKey, model.Headers = shared.BaseURL, secrets.Credential(), secrets.ProviderHeaders(shared.Headers)
	switch provider.GetDriver() {
	case definition.DriverAzure:
		deployed(model, shared.APIVersion)
	case "openai", "openai-compatible":
		if shared.Organization != "" {
			addHeader(model, "OpenAI-Organization", shared.Organization)
		}
	}
	model.Guarded = true // the URL was chosen by a tenant: it must not reach into the server's own network
	if model.Price, err = definition.Price(record.GetPricing()); err != nil {
		return nil, err
	}
	if model.Provider == agentpb.Provider_SCRIPTED {
		script := settings.Script
		if len(script) == 0 {
			script = shared.Script
		}
		parsed, failure := definition.ParseScript("script", script)
		if failure != nil {
			return nil, failure
		}
		model.Script = parsed
	}
	applySettings(model, settings)
	model.InputGuardrail, model.OutputGuardrail = record.GetInputGuardrail(), record.GetOutputGuardrail()
	return model, nil
}

// azureVersion is the API version of driver azure unless the provider names another.
const azureVersion = "2024-10-21"

// deployed gives a model the address of its deployment: its own path, with the API version, and the key in a header of its own.
func deployed(model *agentpb.Model, version string) {
	const deployments = "/openai/deployments/"
	if address, err := url.Parse(model.GetBaseUrl()); err == nil && address.Host != "" {
		if !strings.Contains(address.Path, deployments) {
			address.Path = strings.TrimRight(address.Path, "/") + deployments + model.GetName()
			address.RawPath = ""
		}
		query := address.Query()
		if version != "" || !query.Has("api-version") {
			query.Set("api-version", cmp.Or(version, azureVersion))
		}
		address.RawQuery = query.Encode()
		model.BaseUrl = address.String()
	}
	if model.GetApiKey() != "" {
		addHeader(model, "api-key", model.GetApiKey())
		model.ApiKey = ""
	}
}

// addHeader sets a header that the provider's own headers do not.
func addHeader(model *agentpb.Model, name, value string) {
	for known := range model.GetHeaders() {
		if strings.EqualFold(known, name) {
			return
		}
	}
	if model.Headers == nil {
		model.Headers = map[string]string{}
	}
	model.Headers[name] = value
}

func applySettings(model *agentpb.Model, settings *definition.Settings) {
	setSampling(model, settings.Temperature, settings.TopP)
	model.MaxOutputTokens = int32(settings.MaxOutputTokens)                          //nolint:gosec // bounded when it was read
	model.ContextTokens = cmp.Or(int32(settings.ContextTokens), model.ContextTokens) //nolint:gosec // as above
	model.FirstTokenTimeoutMs = cmp.Or(settings.FirstTokenTimeoutMs, model.FirstTokenTimeoutMs)
	model.IdleTimeoutMs = cmp.Or(settings.IdleTimeoutMs, model.IdleTimeoutMs)
	model.TotalTimeoutMs = cmp.Or(settings.TotalTimeoutMs, model.TotalTimeoutMs)
	if settings.MaxRetries != nil {
		model.MaxRetries = cmp.Or(int32(*settings.MaxRetries), -1) //nolint:gosec // as above; 0 in an agentpb.Model is the default
	}
	_ = json.Unmarshal(settings.UnsupportedParams, &model.UnsupportedParams) // what is no list of names says nothing
}

func setSampling(model *agentpb.Model, temperature, topP *float64) {
	if temperature != nil {
		model.Temperature, model.HasTemperature = *temperature, true
	}
	if topP != nil {
		model.TopP, model.HasTopP = *topP, true
	}
}

// withOverrides is a copy of a model with what an agent sets of it. Of a model that cannot be called only the key is left.
func withOverrides(model *agentpb.Model, config *definition.Config) *agentpb.Model {
	if model == nil {
		return &agentpb.Model{Key: config.ModelKey}
	}
	model = proto.CloneOf(model)
	setSampling(model, config.Temperature, config.TopP)
	if config.MaxTokens != nil {
		model.MaxOutputTokens = int32(*config.MaxTokens) //nolint:gosec // bounded when it was read
	}
	return model
}

// connectedModel is the model of a connected agent: the other side, called as a model would be. credential is its provider's, ""
// = the connection has its own.
func (c *Compiler) connectedModel(connection *definition.Connection, secrets definition.Secrets, credential string) *agentpb.Model {
	model := proto.CloneOf(c.env.Defaults.Model)
	model.Provider, model.Name = agentpb.Provider_CONNECTED, cmp.Or(connection.Model, connection.Protocol)
	model.FirstTokenTimeoutMs, model.IdleTimeoutMs, model.TotalTimeoutMs = connectedTimeoutMs, connectedTimeoutMs, connectedTimeoutMs
	model.MaxRetries = -1 // the other side may have begun to work
	model.Connection = &agentpb.Connection{
		Protocol: connection.Protocol, Url: connection.URL, Model: connection.Model, ResponsePath: connection.ResponsePath,
		Headers:        secrets.ConnectionHeaders(connection.Headers),
		ApiKey:         cmp.Or(credential, secrets.ConnectionKey()),
		RuntimeHeaders: runtimeHeaders(connection.RuntimeHeaders),
	}
	return model
}

func driver(name string) agentpb.Provider {
	switch name {
	case "openai", "openai-compatible", definition.DriverAzure:
		return agentpb.Provider_OPENAI
	case "openai-responses":
		return agentpb.Provider_OPENAI_RESPONSES
	case "anthropic":
		return agentpb.Provider_ANTHROPIC
	case "scripted":
		return agentpb.Provider_SCRIPTED
	}
	return agentpb.Provider_PROVIDER_UNSPECIFIED
}
