package failure

// Of records of any collection.
const (
	RecordMissing       Reason = "record_missing"
	RecordExists        Reason = "record_exists"
	RecordLimitReached  Reason = "record_limit_reached"
	RecordsTooLarge     Reason = "records_too_large"
	RecordWithoutName   Reason = "record_without_name"
	SecretsUnencrypted  Reason = "secrets_unencrypted"
	VersionLimitReached Reason = "version_limit_reached"
)

// Of tenants, projects, users and their tokens.
const (
	Forbidden              Reason = "forbidden"
	SlugTaken              Reason = "slug_taken"
	ProjectKeyTaken        Reason = "project_key_taken"
	EmailTaken             Reason = "email_taken"
	NameAndRoleRequired    Reason = "name_and_role_required"
	BadEmail               Reason = "bad_email"
	BadRole                Reason = "bad_role"
	BadRoleByOperator      Reason = "bad_role_by_operator"
	BadSlug                Reason = "bad_slug"
	BadTier                Reason = "bad_tier"
	LastOwner              Reason = "last_owner"
	AccountInUse           Reason = "account_in_use"
	ProjectOfAnotherTenant Reason = "project_of_another_tenant"
	NotMemberOfProject     Reason = "not_member_of_project"
)

// Of agents, models and providers as records.
const (
	BadKey              Reason = "bad_key"
	AgentNameRequired   Reason = "agent_name_required"
	AgentConfigured     Reason = "agent_configured"
	AgentConfigRefused  Reason = "agent_config_refused"
	BuiltinFixed        Reason = "builtin_fixed"
	ProviderNotFound    Reason = "provider_not_found"
	ProviderInUse       Reason = "provider_in_use"
	ProviderHostChanged Reason = "provider_host_changed"
)

// recordWords are the default words of these reasons; empty for any other.
func recordWords(r Reason) string {
	switch r {
	case RecordMissing:
		return "there is no {noun} {key:q}"
	case RecordExists:
		return "there is a {noun} {key:q}"
	case RecordLimitReached:
		return "{records} limit reached ({count}/{most})"
	case RecordsTooLarge:
		return "The project's {records} are larger than {most} bytes in all"
	case RecordWithoutName:
		return "a {noun} needs a name"
	case SecretsUnencrypted:
		return "nothing to encrypt secrets with is configured: set PROVIDER_ENCRYPTION_SECRET, alike on all nodes"
	case VersionLimitReached:
		return "versions limit reached ({most})"
	case Forbidden:
		return "Forbidden"
	case SlugTaken:
		return "there is a tenant with the slug {slug:q}"
	case ProjectKeyTaken:
		return "there is a project with the key {key:q}"
	case EmailTaken:
		return "User with this email already exists in your organization"
	case NameAndRoleRequired:
		return "Name and role are required"
	case BadEmail:
		return "Invalid email format"
	case BadRole:
		return "Invalid role. Must be user, project_admin, or admin"
	case BadRoleByOperator:
		return "Invalid role. Must be owner, admin, project_admin or user"
	case BadSlug:
		return "{field} {slug:q}: lower case letters, digits and single hyphens"
	case BadTier:
		return "{field} {tier:q}: FREE, STARTER, PROFESSIONAL, ENTERPRISE or ON_PREMISE"
	case LastOwner:
		return "user {user} is the last owner of tenant {tenant}"
	case AccountInUse:
		return "{noun} {id} is the first one, or has API tokens"
	case ProjectOfAnotherTenant:
		return "project {project} is another tenant's"
	case NotMemberOfProject:
		return "The user is not a member of the project"
	case BadKey:
		return "{field} must be 1 to 128 letters, digits, '.', '-' and '_', beginning with a letter or digit"
	case AgentNameRequired:
		return "Agent name is required"
	case AgentConfigured:
		return "The agent is defined in the server's configuration"
	case AgentConfigRefused:
		return "{field}: {problem}"
	case BuiltinFixed:
		return "The built-in {noun} cannot be changed: create one with its key in its place"
	case ProviderNotFound:
		return "Provider not found: {provider}"
	case ProviderInUse:
		return "The provider is used by model {model}"
	case ProviderHostChanged:
		return "{field} names another host: give the credentials and headers again, the stored ones are not sent there"
	default:
		return ""
	}
}
