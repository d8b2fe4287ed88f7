package definition

import (
	"encoding/json"
	"strings"

	"parley/actors/core/money"
)

// SoundPrice is what a price list says of sound, in nano-dollars: what tokens cost says Price.
type SoundPrice struct {
	InputPerKiloSecond, OutputPerKiloSecond, CharactersPerMillion int64
}

// PriceOfSound is what a stored price list says of sound; nil when it says nothing, or not in US dollars.
func PriceOfSound(stored []byte) (*SoundPrice, error) {
	var pricing Pricing
	if len(stored) > 0 {
		if err := json.Unmarshal(stored, &pricing); err != nil {
			return nil, err
		}
	}
	if pricing.Currency != "" && !strings.EqualFold(pricing.Currency, "USD") ||
		pricing.InputSecondPer1K == nil && pricing.OutputSecondPer1K == nil && pricing.InputCharacterPer1 == nil {
		return nil, nil //nolint:nilnil // a model without such a price
	}
	return &SoundPrice{
		InputPerKiloSecond: nano(pricing.InputSecondPer1K), OutputPerKiloSecond: nano(pricing.OutputSecondPer1K),
		CharactersPerMillion: nano(pricing.InputCharacterPer1),
	}, nil
}

// nano is a rate in nano-dollars, 0 for none.
func nano(rate *float64) int64 {
	if rate == nil {
		return 0
	}
	amount, _ := money.FromUSD(*rate)
	return amount
}
