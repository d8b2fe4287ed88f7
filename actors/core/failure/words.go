package failure

// words returns the default words of a reason, empty for one that is not known here. Wording explains the placeholders.
//
// The release before reads the words: where two reasons say nearly the same, they keep what clients were told so far.
func (r Reason) words() string {
	switch r {
	case Literal:
		return "final words"
	case Required:
		return "{field} is required"
	case NotUTF8:
		return "{field} is not valid UTF-8"
	case TooLong:
		return "{field} is longer than {maxBytes} bytes"
	case TooManyCharacters:
		return "{field} is longer than {most} characters"
	case TooLarge:
		return "{field} is larger than {maxBytes} bytes"
	case TooLargeOf:
		return "{field} is larger than {most} bytes"
	case ValuesTooLarge:
		return "{field} are larger than {most} bytes"
	case NotAnObject:
		return "{field} is not a JSON object"
	case ValuesNotAnObject:
		return "{field} are not a JSON object"
	case NotPositive:
		return "{field} must be above 0"
	case BadText:
		return "{what} is text of at most {most} bytes"
	case BadName:
		return "{what} is text of at most {most} bytes without control characters"
	case BadCallbackURL:
		return "{field} must be an absolute http or https URL of at most {most} bytes"
	case CallbackSecretTooLong:
		return "{field} is too long"
	case BadServerMetadata:
		return "server metadata is a JSON object of at most {most} bytes and keys that begin with {prefix}"
	case AccessDenied:
		return "Access denied"
	case CommandIDReused:
		return "the command id was used for another command"
	case UnknownCommand:
		return "this is no command of {entity}"
	case EntityNotFound:
		return "there is no such entity"
	case EntityDeleted:
		return "it was deleted"
	case EntityChanged:
		return "the entity changed at the same time"
	case OutcomeForgotten:
		return "not answered in time; whether it was carried out is not known any more"
	case OutcomeUnknown:
		return "outcome unknown: the command may have been applied, repeat it with the same id"
	case TooManyCommands:
		return "too many commands are waiting"
	case TooManyWaiters:
		return "too many callers wait for this"
	case TooManyFollowers:
		return "too many followers"
	case EventsMissed:
		return "events were missed: follow again"
	case CommandNotHandled:
		return "the command could not be handled"
	case ChangeNotEncoded:
		return "the change could not be encoded"
	case ChangeTooLarge:
		return "the change is too large to be stored"
	case StateUnreadable:
		return "the stored state is unreadable"
	case StateNotRead:
		return "the stored state could not be read in time"
	case StorageBusy:
		return "storage is busy: nothing was written"
	case DiskFull:
		return "the disk is full: nothing was written"
	case StoreFailed:
		return "the store has failed and refuses writes"
	case StoreBroken:
		return "the store has failed"
	case NodeStopping:
		return "the node is stopping"
	case ConversationNotFound:
		return "conversation not found"
	case ConversationDeleted:
		return "conversation was deleted"
	case FollowedConversationDeleted:
		return "the {conversation} was deleted"
	case ConversationChanged:
		return "the {conversation} changed meanwhile"
	case ConversationExists:
		return "the {conversation} exists"
	case OpeningNotAllowed:
		return "this command neither makes a conversation nor adds files to it"
	case ConversationNeedsID:
		return "a {conversation} needs an id"
	case ConversationHeld:
		return "a background run holds the {conversation}"
	case ConversationNotHeld:
		return "the background run does not hold the {conversation}"
	case SessionNotFound:
		return "Session not found"
	case PatchMissing:
		return "a patch is required"
	case RenameDisabled:
		return "the agent does not allow renaming"
	case PinDisabled:
		return "the agent does not allow pinning"
	case AgentMissing:
		return "Agent not found"
	case BadOnReach:
		return "{field} is pause or stop"
	case BudgetAlreadySpent:
		return "{field} must be above what was spent"
	case BudgetSetAndRemoved:
		return "a {field} cannot be set and removed at once"
	case BudgetUsedUp:
		return "the {conversation}'s budget is used up"
	case ModelWithoutPrice:
		return "the agent's model has no price, so no budget can be kept"
	case MessageNotFound:
		return "message not found"
	case RunNotActive:
		return "no such run is active"
	case TurnRunning:
		return "a turn is running"
	case NothingToContinue:
		return "no turn waits to be continued"
	case NotNewestAnswer:
		return "only the newest answer can be regenerated, or the newest user message if it has none"
	case RegenerateDisabled:
		return "the agent does not allow regenerating"
	case OnlyUserMessagesEdited:
		return "only a user message can be edited"
	case EditDisabled:
		return "the agent does not allow editing"
	case TurnSettingsNotUTF8:
		return "the settings of the turn are not valid UTF-8"
	case TurnSettingsTooLarge:
		return "instructions, tools and format are larger than {most} bytes together"
	case TooManyEarlierMessages:
		return "at most {messages} earlier messages and {rounds} rounds of tool calls come with a message"
	case EarlierMessagesTooLarge:
		return "what comes along with a message is larger than {most} bytes"
	case EarlierMessageTooLong:
		return "an earlier message is longer than {most} bytes"
	case BadEarlierRole:
		return "an earlier message is of the user or the assistant"
	case EmptyToolRound:
		return "a round of tool calls that came along has none"
	case ToolCallUnnamed:
		return "a tool call that came along has no id or no name"
	case ToolCallTooLarge:
		return "the arguments or the output of a tool call are larger than {most} bytes"
	case TurnLeaseLost:
		return "the run does not hold the turn lease"
	case StepOutOfOrder:
		return "the step does not follow the last one"
	case EmptyProgress:
		return "there is no progress in it"
	case ToolUseIncomplete:
		return "a tool use says of each call what it needs"
	case ToolCallsOpen:
		return "calls of the last tool use have no result yet"
	case BadNewCall:
		return "a new call needs to be run, or a person"
	case FeedbackDisabled:
		return "the agent takes no feedback"
	case OnlyAnswersRated:
		return "only an answer can be rated"
	case AnswerIncomplete:
		return "the answer is not complete yet"
	case BadRating:
		return "{field} is up, down or null"
	case ReasonsWithoutDown:
		return "{field} go with the rating down only"
	case UnknownFeedbackReason:
		return "{field} are of: {allowed}"
	case CommentWithoutRating:
		return "a {field} needs a rating"
	case CommentsDisabled:
		return "the agent takes no comments"
	case ActionPending:
		return "the {conversation} waits for a person to act"
	case ActionNotPending:
		return "the action is not pending"
	case ActionExpired:
		return "the action has expired"
	case OtherResolutionType:
		return "the action is resolved by a resolution of type {type}"
	case ArgsWithoutAllow:
		return "{field} go with the decision allow only"
	case ArgsOfCallThatRan:
		return "the arguments of a call that may have run cannot be changed"
	case ArgsAgainstSchema:
		return "{field}: {problem}"
	case BadAnswers:
		return "{field} are a JSON object: question to answer"
	case AnswerToNoQuestion:
		return "{field} name a question that was not asked: {question:q}"
	case QuestionUnanswered:
		return "the question {question:q} must be answered"
	case QuestionTakesOne:
		return "the question {question:q} takes one answer"
	case AnswerNoOption:
		return "the answer to {question:q} must be one of its options"
	case NoSuchOpenCall:
		return "no function call {call} waits for an output"
	case NoOutputs:
		return "there is no output of a function call in it"
	case OutputTooLarge:
		return "the {field} is larger than {most} bytes"
	case OutputNotJSON:
		return "the {field} is not a JSON value"
	case ErrorNotUTF8:
		return "the {field} is not valid UTF-8"
	case TooManyRememberedTools:
		return "no more than {most} tools can be remembered"
	case ToolNotRemembered:
		return "the tool is not remembered"
	case FileNotFound:
		return "file not found"
	case FilesNotTaken:
		return "the agent takes no files"
	case FileWithoutID:
		return "a file needs an id"
	case FileWithoutName:
		return "a file needs a {field}"
	case FileWithoutSize:
		return "a file has a {field}"
	case FileTooLarge:
		return "the file is larger than {maxFileSize} bytes"
	case FileTypeNotTaken:
		return "the agent takes no files of type {type}"
	case FilesFull:
		return "the {conversation} has {maxFiles} files already"
	case TooManyFileIDs:
		return "a message names at most {most} files"
	case TaskNotFound:
		return "task not found"
	case TaskExists:
		return "the task exists"
	case IncompleteTask:
		return "a task needs an id and a conversation"
	case TooManyComments:
		return "a task takes at most {most} comments"
	case TooMuchCommented:
		return "too much was commented while the task runs"
	case TaskFilesFull:
		return "a task takes at most {most} files"
	case TaskFilesLost:
		return "The files of this task were not kept. Create it again."
	case TaskAgentGone:
		return "The agent of this task does not exist any more."
	case RunNotFound:
		return "Run not found"
	case RunFilesLost:
		return "the files of the run were not kept"
	case RunExists:
		return "the run exists"
	case IncompleteRun:
		return "a run needs an id, a conversation and an agent"
	case MessageFilesFull:
		return "a message takes at most {most} files"
	case QueueFull:
		return "too many background runs are queued in this project"
	case IncompleteKey:
		return "a key needs an id, the SHA-256 of a request and a time to keep it"
	case IdempotencyKeyReused:
		return "the Idempotency-Key was used for another request"
	case IdempotencyKeyInUse:
		return "a request with this Idempotency-Key is under way, or was, and its answer is not kept; it is not carried out twice"
	case IdempotencyKeyOfAnother:
		return "the key is not this request's"
	case AuthenticationRequired:
		return "Authentication required"
	case AuthenticationUnavailable:
		return "Authentication is unavailable at the moment"
	case InvalidToken:
		return "Invalid token"
	case InvalidJWT:
		return "Invalid JWT format"
	case InvalidIssuer:
		return "Invalid issuer"
	case InvalidAudience:
		return "Invalid audience"
	case TokenExpired:
		return "Token expired"
	case TokenNotYetValid:
		return "Token not yet valid"
	case TokenWithoutExpiry:
		return "Token has no expiry"
	case TokenWithoutUser:
		return "No user ID in token"
	case BadUserID:
		return "userId must have at most {most} bytes and no control characters"
	case MalformedAuthorization:
		return "Missing or invalid Authorization header. Use: Bearer <token>"
	case APITokenMissing:
		return "Missing API token"
	case APITokenUnknown:
		return "Invalid API token"
	case APITokenExpired:
		return "API token has expired"
	case APITokenWithoutTenant:
		return "Tenant not found for token"
	case APITokenWithoutProject:
		return "Token project context is missing"
	case APITokenWithoutOwner:
		return "API token owner is not available"
	case APITokenOwnerNoMember:
		return "API token owner is not a member of its project"
	case TokenOwnerRole:
		return "Forbidden: the token's owner has another role"
	case PermissionMissing:
		return "Forbidden: {service} requires {level} permission"
	case NotLicensed:
		return "This feature is not available in your license"
	case AccessWithoutLevel:
		return "access {access:q} of {path} names no level"
	case CallerNotEstablished:
		return "who asks cannot be established now, try again"
	case PermissionNotChecked:
		return "permission cannot be asked for now, try again"
	case NotPermitted:
		return "not permitted"
	case TooManyRequests:
		return "too many requests"
	case TooManyStreams:
		return "too many open streams"
	case RateLimitNotChecked:
		return "the rate limit cannot be checked now, try again"
	case MonthUsedUp:
		return "Rate limit exceeded for requests perMonth ({count}/{limit})"
	case MonthNotCounted:
		return "Rate limit enforcement unavailable"
	case RouteNotFound:
		return "Route not found: {method} {path}"
	case MethodNotAllowed:
		return "{method} is not allowed on {path}"
	case MalformedRequest:
		return "malformed HTTP request"
	case FoldedHeader:
		return "a header field must be one line"
	case RepeatedHeader:
		return "{header} must be there only once"
	case TwoLengths:
		return "Content-Length and Transfer-Encoding cannot be used together"
	case UnknownHost:
		return "the server is not known by this name: {from}"
	case ForeignOrigin:
		return "pages of this origin may not call the server: {from}"
	case ForeignSite:
		return "pages of other sites may not call the server"
	case ContentTypeNotJSON:
		return "Content-Type must be application/json"
	case BodyNotUTF8:
		return "the body is not valid UTF-8"
	case BodyTooDeep:
		return "the body is nested deeper than {most} levels"
	case BodyNotJSON:
		return "the body is not valid JSON: {problem}"
	case BodyNotAnObject:
		return "the body must be a JSON object"
	case BodyTooLarge:
		return "the body is larger than {most} bytes"
	case BodyTooLargeUnread:
		return "the body is too large"
	case NumberOutOfRange:
		return "the body holds a number that is out of range: {number}"
	case WrongType:
		return "{name} must be {type}"
	case NotOneOf:
		return "{name} must be one of: {choices}"
	case NotWholeNumber:
		return "{name} must be a non-negative integer"
	case BadPathEscape:
		return "the path holds a malformed escape"
	case ParameterNotUTF8:
		return "{source} {name:q} is not valid UTF-8"
	case ParameterControlCharacters:
		return "{source} {name:q} must not hold control characters"
	case BadIdempotencyKey:
		return "an Idempotency-Key is 1 to {most} printable ASCII characters"
	case TemporarilyUnavailable:
		return "temporarily unavailable, try again"
	case NotFinishedInTime:
		return "not finished in time; it may still be carried out"
	case Internal:
		return "Internal error"
	case TooManyConnections:
		return "too many connections"
	case TooManyLargeRequests:
		return "too many large requests at a time"
	case TooManyUploads:
		return "too many files are on their way"
	case ServerStreamsFull:
		return "too many open streams on this server"
	case ServerShuttingDown:
		return "the server is shutting down"
	case ServerStopping:
		return "the server is stopping"
	case CannotFollow:
		return "the {conversation} cannot be followed at the moment"
	case BadBudget:
		return "{field} must be {{{.maxCostUsd}: number, {.onReach}: pause or stop}"
	case BudgetOutOfRange:
		return "{field} must be above 0 and below {most}"
	case OnReachChoice:
		return "{field} must be pause or stop"
	case BadResolutionType:
		return "{field} must be tool_approval, user_question or client_tool"
	case BadDecision:
		return "{field} must be allow or deny"
	case ArgsNoObject:
		return "{field} must be an object"
	case AnswersNoObject:
		return "{field} must be an object: question to answer"
	case ResolutionWithoutOutput:
		return "{field} is required, or error"
	case AgentNotFound:
		return "agent not found"
	case FilesDisabled:
		return "the agent does not take files"
	case NoRoomForFiles:
		return "a {conversation} holds at most {maxFiles} files"
	case NamedFileTooLarge:
		return "file {name:q} is larger than {maxFileSize} bytes"
	case FileEmpty:
		return "file {name:q} is empty"
	case FileNotBase64:
		return "the content of file {name:q} is not base64"
	case FileTypeNotAccepted:
		return "files of type {type} are not accepted"
	case FileTypeTooLong:
		return "the type of a file is at most {most} bytes"
	case FileMetadataTooLarge:
		return "the metadata of a file is larger than {most} bytes"
	case FileNameMissing:
		return "the name of a file is required"
	case BadFileName:
		return "the name of a file must be plain text of at most {most} bytes"
	case ConversationWithoutOwner:
		return "the {conversation} has no owner right now"
	case SomeWithoutOwner:
		return "some conversations have no owner right now"
	case OwnerNotAvailable:
		return "The conversation's node is not available; try again"
	case ReadTooSlow:
		return "The read took too long; try again"
	case DataDamaged:
		return "Stored data is damaged"
	case UploadTooLarge:
		return "the file is larger than {most} bytes"
	case FileExists:
		return "the file is kept already"
	case FileNotKept:
		return "the file cannot be kept"
	case FileStorageBusy:
		return "storage is busy; try again"
	case TurnNotFound:
		return "no such turn"
	case NodeStarting:
		return "the node is starting"
	case NodeAlone:
		return "the node cannot be reached: this one is alone"
	case NodeNotKnown:
		return "node {node} is not known right now; try again"
	case NoSuchNode:
		return "there is no node {node:q}"
	case NoSuchNodeState:
		return "no state {state:q}"
	case NodeRecordChanged:
		return "the node's record changed at the same time; try again"
	case NodeCallFailed:
		return "{problem}"
	case ShardWithoutOwner:
		return "shard {shard} has no owner right now; try again"
	case DirectoryWithoutOwner:
		return "the directory has no owner right now; try again"
	case DirectoryNotAvailable:
		return "The directory is not available right now; try again"
	case RecordChanged:
		return "It was changed at the same time; try again"
	case RecordTooLarge:
		return "The record is too large"
	case RecordDiskFull:
		return "The disk is full: nothing was written"
	case RecordStoreFailed:
		return "The store has failed"
	case RecordStorageBusy:
		return "Storage is busy; try again"
	}
	return ""
}
