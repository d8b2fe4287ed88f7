package protocol

import "cmp"

// Agent is what a card says of an agent.
type Agent struct {
	Name, Description string
	Version           string   // its published version, "0" where none was published
	URL               string   // of its JSON-RPC endpoint
	Home              string   // of who provides it
	Tools             []string // that it has
}

// maxTags is how many tools a card names.
const maxTags = 20

// Card is the agent card. It is one document that clients of both versions take: what 0.3 asks for beside what 1.0 does, with each
// security scheme in both forms. It has no securityRequirements: unmodified clients of 1.0 refuse one of their two forms each.
type Card struct {
	ProtocolVersion    string                `json:"protocolVersion"`
	Name               string                `json:"name"`
	Description        string                `json:"description"`
	URL                string                `json:"url"`
	PreferredTransport string                `json:"preferredTransport"`
	Interfaces         []CardInterface       `json:"supportedInterfaces" doc:"Of 1.0; the newest version first"`
	Provider           CardProvider          `json:"provider"`
	Version            string                `json:"version" doc:"The published version of the agent, 0 while there is none"`
	Capabilities       CardCapabilities      `json:"capabilities"`
	InputModes         []string              `json:"defaultInputModes"`
	OutputModes        []string              `json:"defaultOutputModes"`
	Skills             []CardSkill           `json:"skills"`
	SecuritySchemes    map[string]CardScheme `json:"securitySchemes"`
	Security           []map[string][]string `json:"security"`
}

// CardInterface is a version of the protocol, and where it is spoken.
type CardInterface struct {
	URL             string `json:"url"`
	ProtocolBinding string `json:"protocolBinding"`
	ProtocolVersion string `json:"protocolVersion"`
}

// CardProvider is who runs the agent.
type CardProvider struct {
	Organization string `json:"organization"`
	URL          string `json:"url"`
}

// CardCapabilities is what can be had besides plain calls.
type CardCapabilities struct {
	Streaming              bool `json:"streaming"`
	PushNotifications      bool `json:"pushNotifications"`
	StateTransitionHistory bool `json:"stateTransitionHistory"`
}

// CardSkill is what the agent can do.
type CardSkill struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	InputModes  []string `json:"inputModes"`
	OutputModes []string `json:"outputModes"`
}

// CardScheme is how callers authenticate, in the forms of both versions.
type CardScheme struct {
	Type        string       `json:"type"`
	Scheme      string       `json:"scheme"`
	Description string       `json:"description"`
	HTTP        CardHTTPAuth `json:"httpAuthSecurityScheme"`
}

// CardHTTPAuth is a scheme of HTTP in the form of 1.0.
type CardHTTPAuth struct {
	Scheme      string `json:"scheme"`
	Description string `json:"description"`
}

const (
	organization = "Parley"
	transport    = "JSONRPC"
	bearer       = "bearer"
	howToCall    = "An API token of the agent's project"
)

// NewCard returns the card of an agent.
func NewCard(agent *Agent, can CardCapabilities) *Card {
	plain := []string{"text/plain"}
	description := cmp.Or(agent.Description, "An agent that answers messages")
	return &Card{
		ProtocolVersion: "1.0", Name: agent.Name, Description: description,
		URL: agent.URL, PreferredTransport: transport,
		Interfaces: []CardInterface{{agent.URL, transport, "1.0"}, {agent.URL, transport, "0.3"}},
		Provider:   CardProvider{Organization: organization, URL: agent.Home},
		Version:    agent.Version, Capabilities: can, InputModes: plain, OutputModes: plain,
		Skills: []CardSkill{{
			ID: "chat", Name: "Chat with " + agent.Name, Description: description,
			Tags:       append([]string{"chat"}, agent.Tools[:min(len(agent.Tools), maxTags)]...),
			InputModes: plain, OutputModes: plain,
		}},
		SecuritySchemes: map[string]CardScheme{
			bearer: {Type: "http", Scheme: bearer, Description: howToCall, HTTP: CardHTTPAuth{Scheme: bearer, Description: howToCall}},
		},
		Security: []map[string][]string{{bearer: {}}},
	}
}
