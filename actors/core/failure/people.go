package failure

// Of people who register and sign in.
const (
	RegistrationIncomplete Reason = "registration_incomplete"
	RegistrationDisabled   Reason = "registration_disabled"
	AccessCodeMissing      Reason = "access_code_missing"
	AccessCodeInvalid      Reason = "access_code_invalid"
	CompanyNameTaken       Reason = "company_name_taken"
	WeakPassword           Reason = "weak_password"
	LoginIncomplete        Reason = "login_incomplete"
	UnknownCompany         Reason = "unknown_company"
	WrongEmailOrPassword   Reason = "wrong_email_or_password"
	WrongPassword          Reason = "wrong_password"
	SessionInvalid         Reason = "session_invalid"
	SessionWithoutTenant   Reason = "session_without_tenant"
	SessionNotCheckable    Reason = "session_not_checkable"
	SessionSecretMissing   Reason = "session_secret_missing"
	OwnerSessions          Reason = "owner_sessions"
	ForeignPage            Reason = "foreign_page"
	ProjectNotFound        Reason = "project_not_found"
	TooManyHashes          Reason = "too_many_hashes"
	BadAttempt             Reason = "bad_attempt"
	TooManyLogins          Reason = "too_many_logins"
	TooManyRegistrations   Reason = "too_many_registrations"
	AttemptsNotCounted     Reason = "attempts_not_counted"
	BadMail                Reason = "bad_mail"
	EmailRequired          Reason = "email_required"
	TooManyResets          Reason = "too_many_resets"
	ResetInvalid           Reason = "reset_invalid"
	CodeRequired           Reason = "code_required"
	ChallengeInvalid       Reason = "challenge_invalid"
	WrongCode              Reason = "wrong_code"
	TooManyCodes           Reason = "too_many_codes"
	SecondFactorExists     Reason = "second_factor_exists"
	SecondFactorMissing    Reason = "second_factor_missing"
	SecondFactorChanged    Reason = "second_factor_changed"
	OwnSecondFactor        Reason = "own_second_factor"
	ProviderMissing        Reason = "provider_missing"
	ProviderUnavailable    Reason = "provider_unavailable"
	ProviderRefused        Reason = "provider_refused"
	ProviderUserUnknown    Reason = "provider_user_unknown"
	ProviderIdentityTaken  Reason = "provider_identity_taken"
	ForeignPath            Reason = "foreign_path"
)

func peopleWords(r Reason) string {
	switch r {
	case RegistrationIncomplete:
		return "Email, password, name, and company name are required"
	case RegistrationDisabled:
		return "Registration is disabled on this deployment. Contact your administrator."
	case AccessCodeMissing:
		return "An access code is required to register during the beta."
	case AccessCodeInvalid:
		return "Invalid or already used access code."
	case CompanyNameTaken:
		return "A company with this name already exists. Please choose a different name."
	case WeakPassword:
		return "{problems}"
	case LoginIncomplete:
		return "Email and password are required"
	case UnknownCompany:
		return "Invalid company identifier"
	case WrongEmailOrPassword:
		return "Invalid email or password"
	case WrongPassword:
		return "Current password is incorrect"
	case SessionInvalid:
		return "Invalid or expired token"
	case SessionWithoutTenant:
		return "Tenant context is missing"
	case SessionNotCheckable:
		return "the session cannot be checked at the moment, try again"
	case SessionSecretMissing:
		return "nothing to sign sessions with is configured: set JWT_SECRET, alike on all nodes"
	case OwnerSessions:
		return "Only an owner ends an owner's sessions"
	case ForeignPage:
		return "a page of another site may not do this"
	case ProjectNotFound:
		return "Project not found"
	case TooManyHashes:
		return "too many passwords are being checked, try again"
	case BadAttempt:
		return "an attempt needs a limit and a window"
	case TooManyLogins:
		return "Too many login attempts. Please try again later."
	case TooManyRegistrations:
		return "Too many registration attempts. Please try again later."
	case AttemptsNotCounted:
		return "attempts cannot be counted while the cluster is being upgraded, try again"
	case BadMail:
		return "a mail needs a template"
	case EmailRequired:
		return "Email is required"
	case TooManyResets:
		return "Too many password reset attempts. Please try again later."
	case ResetInvalid:
		return "Invalid or expired reset token"
	case CodeRequired:
		return "A code is required to sign in"
	case ChallengeInvalid:
		return "Invalid or expired challenge: sign in again"
	case WrongCode:
		return "Invalid or already used code"
	case TooManyCodes:
		return "Too many codes were tried. Please try again later."
	case SecondFactorExists:
		return "A second factor is set up already"
	case SecondFactorMissing:
		return "No second factor is set up"
	case SecondFactorChanged:
		return "the second factor was set up anew meanwhile"
	case OwnSecondFactor:
		return "userId must be somebody else: your own second factor is disabled with a code"
	case ProviderMissing:
		return "No sign-in provider is configured"
	case ProviderUnavailable:
		return "The sign-in provider cannot be reached, try again"
	case ProviderRefused:
		return "The sign-in was not completed: begin again"
	case ProviderUserUnknown:
		return "There is no account for you here"
	case ProviderIdentityTaken:
		return "somebody signs in as that person of the provider already"
	case ForeignPath:
		return "{field} must be a path of this server"
	default:
		return ""
	}
}
