package failure

// Of agents' configs and metadata.
const (
	AgentConfigMissing      Reason = "agent_config_missing"
	ConnectionMissing       Reason = "connection_missing"
	ProtocolNotSupported    Reason = "protocol_not_supported"
	EndpointURLMissing      Reason = "endpoint_url_missing"
	BadEndpointURL          Reason = "bad_endpoint_url"
	ConnectedModelMissing   Reason = "connected_model_missing"
	AgentModelMissing       Reason = "agent_model_missing"
	TooManyConfigParts      Reason = "too_many_config_parts"
	NameControlCharacters   Reason = "name_control_characters"
	TwoToolsOfOneName       Reason = "two_tools_of_one_name"
	TwoServersOfOneName     Reason = "two_servers_of_one_name"
	BadServerURL            Reason = "bad_server_url"
	FilesMetadataOutOfRange Reason = "files_metadata_out_of_range"
	BadAgentTools           Reason = "bad_agent_tools"
	ToolNotRunHere          Reason = "tool_not_run_here"
)

// Of the settings, prices and secrets of agents, models and providers.
const (
	TimeoutOutOfRange    Reason = "timeout_out_of_range"
	PriceOutOfRange      Reason = "price_out_of_range"
	BadScript            Reason = "bad_script"
	TooManyHeaders       Reason = "too_many_headers"
	BadHeaderName        Reason = "bad_header_name"
	BadHeaderValue       Reason = "bad_header_value"
	TooManyCredentials   Reason = "too_many_credentials"
	BadCredentialName    Reason = "bad_credential_name"
	BadCredential        Reason = "bad_credential"
	BadNamedCredential   Reason = "bad_named_credential"
	CredentialInClear    Reason = "credential_in_clear"
	SecretNotStored      Reason = "secret_not_stored"
	SecretForAnotherHost Reason = "secret_for_another_host"
)

// definitionWords are the default words of these reasons; empty for any other.
func definitionWords(r Reason) string {
	switch r {
	case AgentConfigMissing:
		return "Agent config is required"
	case ConnectionMissing:
		return "Connection settings are required for a connected agent"
	case ProtocolNotSupported:
		return "Unsupported connected agent protocol: {protocol}"
	case EndpointURLMissing:
		return "Connected agent endpoint URL is required"
	case BadEndpointURL:
		return "Connected agent endpoint URL must be an http or https URL without a user name"
	case ConnectedModelMissing:
		return "Model id is required for OpenAI-compatible connected agents"
	case AgentModelMissing:
		return "Model configuration is required"
	case TooManyConfigParts:
		return "config has more than {tools} tools, {servers} mcpServers or {bindings} toolBindings"
	case NameControlCharacters:
		return "{field}: {name:q} holds control characters"
	case TwoToolsOfOneName:
		return "{field}: two tools are called {name:q}"
	case TwoServersOfOneName:
		return "{field}: two servers are called {name:q}"
	case BadServerURL:
		return "{field}: {name:q} needs an http or https URL without a user name"
	case FilesMetadataOutOfRange:
		return "{field}: maxFiles is 0 to {files}, retentionDays 0 to {days}, maxFileSize not negative, allowedMimeTypes at most {types}"
	case BadAgentTools:
		return "The agent's tools cannot be used: {why}"
	case ToolNotRunHere:
		return "{field}: a person or the caller's side has its result: there is nothing to call"
	case TimeoutOutOfRange:
		return "{field}: a timeout is between 0 and {most} ms"
	case PriceOutOfRange:
		return "{field}: a rate is a number between 0 and {most}"
	case BadScript:
		return "{field} is no script: see the documentation of scripted models"
	case TooManyHeaders:
		return "{field} has more than {most} headers"
	case BadHeaderName:
		return "{field}: {name:q} is no name of a header"
	case BadHeaderValue:
		return "{field}: the value of header {name:q} is too long, or cannot be sent"
	case TooManyCredentials:
		return "{field}: there are more than {most}"
	case BadCredentialName:
		return "{field}: {name:q} is no name of a credential: 1 to 64 letters, digits and _"
	case BadCredential:
		return "{field} is too long, or cannot be sent"
	case BadNamedCredential:
		return "{field}: {name:q} is too long, or cannot be sent"
	case CredentialInClear:
		return "{field}: a credential cannot be kept here"
	case SecretNotStored:
		return "{field}: there is no stored value to keep"
	case SecretForAnotherHost:
		return "{field}: the stored value was given for another host and is not sent to this one: give it again"
	default:
		return ""
	}
}
