package inference

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"parley/actors/core/definition"
	"parley/actors/core/quota"
	"parley/actors/inference/wave"
	"parley/actors/provider"
)

// sound is what a call consumed of sound.
type sound struct {
	heard, spoken int64 // milliseconds, in and out
	characters    int64 // that were to be spoken
	known         bool  // and not estimated
}

func (t *target) hasSound() bool {
	return t.service == ServiceSpeech || t.service == ServiceTranscriptions || t.service == ServiceTranslations
}

// addSound adds sound to the usage of a call, at the prices of its model's record. Tokens are priced as always: a provider counts
// the one or the other.
func (u *consumed) addSound(usage *Usage, t *target) {
	usage.AudioMillis, usage.Characters = u.sound.heard+u.sound.spoken, u.sound.characters
	cost, priced := t.priceOf(u.sound)
	if !priced {
		tokens := u.Input + u.Output
		usage.Priced = t.model.GetPrice() != nil && (u.Known && tokens > 0 || tokens == 0 && u.sound == (sound{}))
		return
	}
	usage.CostNanoUSD = saturated(usage.CostNanoUSD, cost)
	usage.Priced = u.sound == (sound{}) || u.sound.known
}

// priceOf is what sound costs, in nano-dollars, where the model's record says so.
func (t *target) priceOf(s sound) (cost int64, priced bool) {
	price, err := definition.PriceOfSound(t.record.GetPricing())
	if err != nil || price == nil {
		return 0, false
	}
	return provider.CostOf( // a thousand seconds are a million milliseconds
		provider.Portion{Units: s.heard, PerMillion: price.InputPerKiloSecond},
		provider.Portion{Units: s.spoken, PerMillion: price.OutputPerKiloSecond},
		provider.Portion{Units: s.characters, PerMillion: price.CharactersPerMillion},
	), true
}

// slowSpeech is how many characters of a text are spoken in a second at least, as budgets are asked for it.
const slowSpeech = 6

// hold says what a call of sound may cost before it is made: a text by its characters and by how long it may take to be spoken, a
// recording by its length. One that does not say how long it is may be let in for less.
func (t *target) hold(entering *quota.Call) {
	entering.Domain = quota.Listening
	if t.service == ServiceSpeech {
		entering.Domain = quota.Speech
	}
	entering.InputTokens = tokens(int(t.sounds.characters))
	if t.sounds.known {
		entering.Need, _ = t.priceOf(t.sounds)
	}
	spoken := t.sounds
	spoken.spoken = spoken.characters * 1000 / slowSpeech
	most, _ := t.priceOf(spoken)
	entering.Want = saturated(most, provider.Cost(t.model.GetPrice(), entering.InputTokens, 0, 0))
}

func saturated(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Of recordings that do not say how long they are.
const (
	guessedRate = 16_000 // bytes a second: what compressed music has, rather too much for speech
	leastRate   = 40     // that any codec has
	longest     = 24 * time.Hour
)

// lengthOf is how long a recording is: as its head says, else about.
func lengthOf(recording *Recording) sound {
	if found, ok := wave.Read(recording.Audio, recording.Size); ok {
		return sound{heard: found.Millis(), known: true}
	}
	return sound{heard: recording.Size*1000/guessedRate + 1}
}

// believable is a length that a provider tells of so many bytes, in milliseconds; 0 = it cannot be.
func believable(seconds float64, bytes int64) int64 {
	most := math.Min(longest.Seconds(), float64(bytes)/leastRate+1)
	if !(seconds > 0) || seconds > most {
		return 0
	}
	return int64(math.Ceil(seconds * 1000))
}

// openSound is open for models of speech, whose refusals have words and statuses of their own (document 3, 11.3).
func (c *Caller) openSound(call *Call, service, category, purpose string) (leave func(), t *target, failed *Error) {
	leave, t, failed = c.open(call, service, category)
	if failed == nil || failed.Param != "model" {
		return leave, t, failed
	}
	refused := *failed
	refused.Status, refused.Type = http.StatusBadRequest, typeInvalid
	if failed.Status != http.StatusNotFound {
		refused.Message = "Model is not configured for " + purpose
	}
	return nil, nil, &refused
}

// soundError words a provider's refusal as document 3, 11.4 does. Routes of audio know no 404.
func soundError(err error, deed string) error {
	known, ok := err.(*Error) //nolint:errorlint // what attempts returns is not wrapped
	if !ok {
		return err
	}
	reworded := *known
	failed, ok := known.Err.(*provider.Failure) //nolint:errorlint // as above
	if ok && failed.Status > 0 && failed.Message != "" && failed.Message == known.Message {
		reworded.Message = "OpenAI " + deed + " failed (" + strconv.Itoa(failed.Status) + "): " + failed.Message
	}
	if known.Status == http.StatusNotFound {
		reworded.Status, reworded.Type = http.StatusBadRequest, typeInvalid
	}
	return &reworded
}
