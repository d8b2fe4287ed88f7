package failure

// Reason names one kind of refusal, in lower_snake. It stands in messages between nodes: it is never reused for another kind.
// Its default words are in words.go; a surface may have its own (Wording).
type Reason string

// Literal is the reason of words from outside, see Verbatim.
const (
	Literal Reason = "literal"
)

// Of a field, whatever it is a field of.
const (
	Required              Reason = "required"
	NotUTF8               Reason = "not_utf8"
	TooLong               Reason = "too_long"
	TooManyCharacters     Reason = "too_many_characters"
	TooLarge              Reason = "too_large"
	TooLargeOf            Reason = "too_large_of"
	ValuesTooLarge        Reason = "values_too_large"
	NotAnObject           Reason = "not_an_object"
	ValuesNotAnObject     Reason = "values_not_an_object"
	NotPositive           Reason = "not_positive"
	BadText               Reason = "bad_text"
	BadName               Reason = "bad_name"
	BadCallbackURL        Reason = "bad_callback_url"
	CallbackSecretTooLong Reason = "callback_secret_too_long"
	BadServerMetadata     Reason = "bad_server_metadata"
)

// Of any command, and of the runtime around the rules.
const (
	AccessDenied      Reason = "access_denied"
	CommandIDReused   Reason = "command_id_reused"
	UnknownCommand    Reason = "unknown_command"
	EntityNotFound    Reason = "entity_not_found"
	EntityDeleted     Reason = "entity_deleted"
	EntityChanged     Reason = "entity_changed"
	OutcomeForgotten  Reason = "outcome_forgotten"
	OutcomeUnknown    Reason = "outcome_unknown"
	TooManyCommands   Reason = "too_many_commands"
	TooManyWaiters    Reason = "too_many_waiters"
	TooManyFollowers  Reason = "too_many_followers"
	EventsMissed      Reason = "events_missed"
	CommandNotHandled Reason = "command_not_handled"
	ChangeNotEncoded  Reason = "change_not_encoded"
	ChangeTooLarge    Reason = "change_too_large"
	StateUnreadable   Reason = "state_unreadable"
	StateNotRead      Reason = "state_not_read"
	StorageBusy       Reason = "storage_busy"
	DiskFull          Reason = "disk_full"
	StoreFailed       Reason = "store_failed"
	StoreBroken       Reason = "store_broken"
	NodeStopping      Reason = "node_stopping"
)

// Of conversations.
const (
	ConversationNotFound        Reason = "conversation_not_found"
	ConversationDeleted         Reason = "conversation_deleted"
	FollowedConversationDeleted Reason = "followed_conversation_deleted"
	ConversationChanged         Reason = "conversation_changed"
	ConversationExists          Reason = "conversation_exists"
	OpeningNotAllowed           Reason = "opening_not_allowed"
	ConversationNeedsID         Reason = "conversation_needs_id"
	ConversationHeld            Reason = "conversation_held"
	ConversationNotHeld         Reason = "conversation_not_held"
	SessionNotFound             Reason = "session_not_found"
	PatchMissing                Reason = "patch_missing"
	RenameDisabled              Reason = "rename_disabled"
	PinDisabled                 Reason = "pin_disabled"
	AgentMissing                Reason = "agent_missing"
)

// Of budgets.
const (
	BadOnReach          Reason = "bad_on_reach"
	BudgetAlreadySpent  Reason = "budget_already_spent"
	BudgetSetAndRemoved Reason = "budget_set_and_removed"
	BudgetUsedUp        Reason = "budget_used_up"
	ModelWithoutPrice   Reason = "model_without_price"
)

// Of messages and their turns.
const (
	MessageNotFound         Reason = "message_not_found"
	RunNotActive            Reason = "run_not_active"
	TurnRunning             Reason = "turn_running"
	MessageQueueFull        Reason = "message_queue_full"
	QueueBefore             Reason = "queue_before"
	QueueNotYet             Reason = "queue_not_yet"
	BadOnBusy               Reason = "bad_on_busy"
	NothingToContinue       Reason = "nothing_to_continue"
	NotNewestAnswer         Reason = "not_newest_answer"
	RegenerateDisabled      Reason = "regenerate_disabled"
	OnlyUserMessagesEdited  Reason = "only_user_messages_edited"
	EditDisabled            Reason = "edit_disabled"
	TurnSettingsNotUTF8     Reason = "turn_settings_not_utf8"
	TurnSettingsTooLarge    Reason = "turn_settings_too_large"
	TooManyEarlierMessages  Reason = "too_many_earlier_messages"
	EarlierMessagesTooLarge Reason = "earlier_messages_too_large"
	EarlierMessageTooLong   Reason = "earlier_message_too_long"
	BadEarlierRole          Reason = "bad_earlier_role"
	EmptyToolRound          Reason = "empty_tool_round"
	ToolCallUnnamed         Reason = "tool_call_unnamed"
	ToolCallTooLarge        Reason = "tool_call_too_large"
	TurnLeaseLost           Reason = "turn_lease_lost"
	StepOutOfOrder          Reason = "step_out_of_order"
	EmptyProgress           Reason = "empty_progress"
	ToolUseIncomplete       Reason = "tool_use_incomplete"
	ToolCallsOpen           Reason = "tool_calls_open"
	BadNewCall              Reason = "bad_new_call"
)

// Of feedback.
const (
	FeedbackDisabled      Reason = "feedback_disabled"
	OnlyAnswersRated      Reason = "only_answers_rated"
	AnswerIncomplete      Reason = "answer_incomplete"
	BadRating             Reason = "bad_rating"
	ReasonsWithoutDown    Reason = "reasons_without_down"
	UnknownFeedbackReason Reason = "unknown_feedback_reason"
	CommentWithoutRating  Reason = "comment_without_rating"
	CommentsDisabled      Reason = "comments_disabled"
)

// Of pending actions and the outputs of tools.
const (
	ActionPending          Reason = "action_pending"
	ActionNotPending       Reason = "action_not_pending"
	ActionExpired          Reason = "action_expired"
	OtherResolutionType    Reason = "other_resolution_type"
	ArgsWithoutAllow       Reason = "args_without_allow"
	ArgsOfCallThatRan      Reason = "args_of_call_that_ran"
	ArgsAgainstSchema      Reason = "args_against_schema"
	BadAnswers             Reason = "bad_answers"
	AnswerToNoQuestion     Reason = "answer_to_no_question"
	QuestionUnanswered     Reason = "question_unanswered"
	QuestionTakesOne       Reason = "question_takes_one"
	AnswerNoOption         Reason = "answer_no_option"
	AnswerNoText           Reason = "answer_no_text"
	NoSuchOpenCall         Reason = "no_such_open_call"
	NoOutputs              Reason = "no_outputs"
	OutputTooLarge         Reason = "output_too_large"
	OutputNotJSON          Reason = "output_not_json"
	ErrorNotUTF8           Reason = "error_not_utf8"
	TooManyRememberedTools Reason = "too_many_remembered_tools"
	PushesFull             Reason = "pushes_full"
	TurnOver               Reason = "turn_over"
	ToolNotRemembered      Reason = "tool_not_remembered"
)

// Of files.
const (
	FileNotFound     Reason = "file_not_found"
	FilesNotTaken    Reason = "files_not_taken"
	FileWithoutID    Reason = "file_without_id"
	FileWithoutName  Reason = "file_without_name"
	FileWithoutSize  Reason = "file_without_size"
	FileTooLarge     Reason = "file_too_large"
	FileTypeNotTaken Reason = "file_type_not_taken"
	FilesFull        Reason = "files_full"
	TooManyFileIDs   Reason = "too_many_file_i_ds"
)

// Of tasks.
const (
	TaskNotFound     Reason = "task_not_found"
	TaskExists       Reason = "task_exists"
	IncompleteTask   Reason = "incomplete_task"
	TooManyComments  Reason = "too_many_comments"
	TooMuchCommented Reason = "too_much_commented"
	TaskFilesFull    Reason = "task_files_full"
	TaskFilesLost    Reason = "task_files_lost"
	TaskAgentGone    Reason = "task_agent_gone"
)

// Of background runs and their queue.
const (
	RunNotFound      Reason = "run_not_found"
	RunFilesLost     Reason = "run_files_lost"
	RunExists        Reason = "run_exists"
	IncompleteRun    Reason = "incomplete_run"
	MessageFilesFull Reason = "message_files_full"
	QueueFull        Reason = "queue_full"
)

// Of webhooks.
const (
	BadURL               Reason = "bad_url"
	URLScheme            Reason = "url_scheme"
	URLNotPublic         Reason = "url_not_public"
	NoEventTypes         Reason = "no_event_types"
	UnknownEventType     Reason = "unknown_event_type"
	BadEndpointStatus    Reason = "bad_endpoint_status"
	EndpointNotFound     Reason = "endpoint_not_found"
	DeliveryNotFound     Reason = "delivery_not_found"
	EndpointsFull        Reason = "endpoints_full"
	EndpointDisabled     Reason = "endpoint_disabled"
	DeliveryPending      Reason = "delivery_pending"
	DeliveryChanged      Reason = "delivery_changed"
	TestNotRecorded      Reason = "test_not_recorded"
	WebhooksNotYet       Reason = "webhooks_not_yet"
	BadWebhookCommand    Reason = "bad_webhook_command"
	FormerOutboxKeeper   Reason = "former_outbox_keeper"
	BadDeliveriesRequest Reason = "bad_deliveries_request"
	TooManySkipped       Reason = "too_many_skipped"
)

// Of idempotency keys.
const (
	IncompleteKey           Reason = "incomplete_key"
	IdempotencyKeyReused    Reason = "idempotency_key_reused"
	IdempotencyKeyInUse     Reason = "idempotency_key_in_use"
	IdempotencyKeyOfAnother Reason = "idempotency_key_of_another"
)

// Of what clients send in the same form to several surfaces.
const (
	BadBudget               Reason = "bad_budget"
	BudgetOutOfRange        Reason = "budget_out_of_range"
	OnReachChoice           Reason = "on_reach_choice"
	BadResolutionType       Reason = "bad_resolution_type"
	BadDecision             Reason = "bad_decision"
	ArgsNoObject            Reason = "args_no_object"
	AnswersNoObject         Reason = "answers_no_object"
	ResolutionWithoutOutput Reason = "resolution_without_output"
	AgentNotFound           Reason = "agent_not_found"
	FilesDisabled           Reason = "files_disabled"
	NoRoomForFiles          Reason = "no_room_for_files"
	NamedFileTooLarge       Reason = "named_file_too_large"
	FileEmpty               Reason = "file_empty"
	FileNotBase64           Reason = "file_not_base64"
	FileTypeNotAccepted     Reason = "file_type_not_accepted"
	FileTypeTooLong         Reason = "file_type_too_long"
	FileMetadataTooLarge    Reason = "file_metadata_too_large"
	FileNameMissing         Reason = "file_name_missing"
	BadFileName             Reason = "bad_file_name"
)

// Of nodes, their shards and the directory.
const (
	ConversationWithoutOwner Reason = "conversation_without_owner"
	SomeWithoutOwner         Reason = "some_without_owner"
	OwnerNotAvailable        Reason = "owner_not_available"
	ReadTooSlow              Reason = "read_too_slow"
	DataDamaged              Reason = "data_damaged"
	UploadTooLarge           Reason = "upload_too_large"
	FileExists               Reason = "file_exists"
	FileNotKept              Reason = "file_not_kept"
	FileStorageBusy          Reason = "file_storage_busy"
	TurnNotFound             Reason = "turn_not_found"
	NodeStarting             Reason = "node_starting"
	NodeAlone                Reason = "node_alone"
	NodeNotKnown             Reason = "node_not_known"
	NoSuchNode               Reason = "no_such_node"
	NoSuchNodeState          Reason = "no_such_node_state"
	NodeCallFailed           Reason = "node_call_failed"
	ShardWithoutOwner        Reason = "shard_without_owner"
	DirectoryNotAvailable    Reason = "directory_not_available"
	RecordChanged            Reason = "record_changed"
	RecordTooLarge           Reason = "record_too_large"
	RecordDiskFull           Reason = "record_disk_full"
	RecordStoreFailed        Reason = "record_store_failed"
	RecordStorageBusy        Reason = "record_storage_busy"
)
