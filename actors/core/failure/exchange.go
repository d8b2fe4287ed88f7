package failure

// Of what a surface of conversations or sessions asks of a request, beside the rules.
const (
	IdentityRequiredToList Reason = "identity_required_to_list"
	BulkIDMissing          Reason = "bulk_id_missing"
	BulkIDsCount           Reason = "bulk_i_ds_count"
	BulkDeleteDisabled     Reason = "bulk_delete_disabled"
	FeedbackTypes          Reason = "feedback_types"
	RatingRequired         Reason = "rating_required"
	RatingChoice           Reason = "rating_choice"
	QuestionGone           Reason = "question_gone"
	FormNotTaken           Reason = "form_not_taken"
	FormWithoutBoundary    Reason = "form_without_boundary"
	FormWithoutFile        Reason = "form_without_file"
	FormWithFiles          Reason = "form_with_files"
	MalformedForm          Reason = "malformed_form"
	ResultNotFound         Reason = "result_not_found"
	NotMessageIDs          Reason = "not_message_i_ds"
	BadCursor              Reason = "bad_cursor"
	NotMilliseconds        Reason = "not_milliseconds"
)

// Of exports.
const (
	PDFNotMade           Reason = "pdf_not_made"
	PDFTooLarge          Reason = "pdf_too_large"
	ExportDisabled       Reason = "export_disabled"
	ExportFormatDisabled Reason = "export_format_disabled"
	ExportToolsDisabled  Reason = "export_tools_disabled"
	ExportOvertaken      Reason = "export_overtaken"
)

// Of sessions and their agents.
const (
	AgentNotActive      Reason = "agent_not_active"
	AgentVersionMissing Reason = "agent_version_missing"
	BackgroundDisabled  Reason = "background_disabled"
	RunActive           Reason = "run_active"
	RunHoldsActions     Reason = "run_holds_actions"
	StoredFileMissing   Reason = "stored_file_missing"
	BudgetRequired      Reason = "budget_required"
	BudgetNotRemovable  Reason = "budget_not_removable"
	BudgetNotRaisable   Reason = "budget_not_raisable"
	PairsNotStrings     Reason = "pairs_not_strings"
	TooManyPairs        Reason = "too_many_pairs"
	BadPairKey          Reason = "bad_pair_key"
	PairValueNotString  Reason = "pair_value_not_string"
	PairValueTooLong    Reason = "pair_value_too_long"
	BadPermissions      Reason = "bad_permissions"
)

// Of the operations API.
const (
	BackupRunning  Reason = "backup_running"
	BadAccountBody Reason = "bad_account_body"
	NoSuchLevel    Reason = "no_such_level"
	TokensFixed    Reason = "tokens_fixed"
)

// Of requests to models.
const (
	BadMessages        Reason = "bad_messages"
	BadEmbeddingsInput Reason = "bad_embeddings_input"
	BadModerationInput Reason = "bad_moderation_input"
	BadGuardrailKey    Reason = "bad_guardrail_key"

	SpeechTextRequired Reason = "speech_text_required"
	SoundFieldRequired Reason = "sound_field_required"
	SoundNotBase64     Reason = "sound_not_base64"
	SoundBodyType      Reason = "sound_body_type"
	SoundEmpty         Reason = "sound_empty"
	SoundNotStreamed   Reason = "sound_not_streamed"
	UploadsFull        Reason = "uploads_full"
)

// exchangeWords are the default words of these reasons; empty for any other.
func exchangeWords(r Reason) string {
	switch r {
	case IdentityRequiredToList:
		return "an identity is required to list conversations"
	case BulkIDMissing:
		return "{field} must hold conversation ids: one of them is null or empty"
	case BulkIDsCount:
		return "{field} must hold 1 to {most} conversation ids"
	case BulkDeleteDisabled:
		return "the agent does not allow bulk delete"
	case FeedbackTypes:
		return "rating and comment must be text, reasons a list of texts"
	case RatingRequired:
		return "{field} is required: up, down or null"
	case RatingChoice:
		return "{field} must be up, down or null"
	case QuestionGone:
		return "the message that was answered is gone"
	case FormNotTaken:
		return "a form is not taken: send the file's bytes as the body, or JSON"
	case FormWithoutBoundary:
		return "the form has no boundary"
	case FormWithoutFile:
		return "the form has no file"
	case FormWithFiles:
		return "the form has more than one file: send each by itself"
	case MalformedForm:
		return "the form is malformed"
	case ResultNotFound:
		return "result not found"
	case NotMessageIDs:
		return "{field} and {other} are message ids"
	case BadCursor:
		return "{field} must be a next_cursor of this list"
	case NotMilliseconds:
		return "{field} must be a whole number of milliseconds"
	case PDFNotMade:
		return "this server makes no PDF"
	case PDFTooLarge:
		return "the {conversation} is too large for a PDF"
	case ExportDisabled:
		return "the agent does not permit exports"
	case ExportFormatDisabled:
		return "the agent does not permit exports as {format}"
	case ExportToolsDisabled:
		return "the agent does not permit exports with tool calls"
	case ExportOvertaken:
		return "the {conversation} was changed meanwhile"
	case AgentNotActive:
		return "Agent is not active"
	case AgentVersionMissing:
		return "Agent version not found"
	case BackgroundDisabled:
		return "background execution is not enabled for this agent"
	case RunActive:
		return "a run is active on the {conversation}"
	case RunHoldsActions:
		return "a background run holds the {conversation}: resolve its actions one by one"
	case StoredFileMissing:
		return "File not found"
	case BudgetRequired:
		return "{field} is required; null removes it"
	case BudgetNotRemovable:
		return "the agent's budget cannot be removed"
	case BudgetNotRaisable:
		return "the agent's budget cannot be raised"
	case PairsNotStrings:
		return "{field} must be an object of strings"
	case TooManyPairs:
		return "{field} has more than {most} pairs"
	case BadPairKey:
		return "a {field} key has 1 to {most} characters"
	case PairValueNotString:
		return "{field} values are strings"
	case PairValueTooLong:
		return "a {field} value has at most {most} characters"
	case BadPermissions:
		return `{field} must be an object of service to level, or a list of texts like "models:read"`
	case BackupRunning:
		return "a backup is running already"
	case BadAccountBody:
		return "the body is not such a JSON object: {problem}"
	case NoSuchLevel:
		return "{service}: {level:q} is no level: none, read, write, admin"
	case TokensFixed:
		return "tokens cannot be changed: make another"
	case BadMessages:
		return "`{field}` must be an array of at least one message"
	case SpeechTextRequired:
		return "`{field}` text is required"
	case SoundFieldRequired:
		return "`{field}` field is required."
	case SoundNotBase64:
		return "`audio.data` must be a base64-encoded string."
	case SoundBodyType:
		return "Content-Type must be multipart/form-data or application/json."
	case SoundEmpty:
		return "the recording must not be empty"
	case SoundNotStreamed:
		return "answers of this route must not be streamed: leave `{field}` out"
	case UploadsFull:
		return "too many uploads are on their way, try again"
	case BadEmbeddingsInput:
		return "`{field}` must be a string or array of strings"
	case BadModerationInput:
		return "`{field}` must be a string, an array of strings or an array of text parts"
	case BadGuardrailKey:
		return "`{field}` must be a guardrail key string"
	default:
		return ""
	}
}
