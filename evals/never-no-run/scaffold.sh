. "${0%/*}/../scaffold.sh"
state none
