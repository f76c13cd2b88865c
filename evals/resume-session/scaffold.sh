. "${0%/*}/../scaffold.sh"
state started
