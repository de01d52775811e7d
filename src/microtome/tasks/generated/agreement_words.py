"""Lexicon of the agreement task: nouns, verbs, adjectives and places."""

from __future__ import annotations

from .english import words_in

PEOPLE = words_in(
    "author critic teacher pilot lawyer nurse farmer painter singer dancer waiter banker driver guard "
    "judge king queen doctor dentist surgeon actor baker barber butcher builder carpenter cashier chef "
    "child clerk coach cook customer designer diplomat director editor engineer expert explorer gardener "
    "guest guide hunter inspector janitor jeweler journalist juggler knight landlord leader lecturer "
    "librarian magician manager mayor mechanic merchant minister model musician neighbor novelist officer "
    "owner passenger patient pharmacist philosopher photographer physicist pianist plumber poet "
    "president priest prince princess professor programmer publisher reporter researcher runner sailor "
    "scientist sculptor secretary senator servant sheriff shopkeeper soldier student swimmer tailor "
    "tourist traveler tutor violinist visitor wizard worker writer"
)

# Verbs that take a clause or a bare verb, such as see and believe, are left out: "the author that saw
# the critics laugh" and "the author that the critics believed laughs" have a second reading.
DID = words_in(
    "admired met praised visited phoned trusted followed greeted thanked blamed ignored invited avoided "
    "hired paid liked loved hated envied teased respected recognized scolded obeyed consulted called "
    "interviewed criticized defended insulted welcomed married supported entertained amused annoyed bored "
    "confused surprised contacted photographed painted mocked approached passed chased guided rescued "
    "impressed questioned tricked copied congratulated hugged accused adored betrayed "
    "comforted described disliked cheered"
)

DOES = words_in(
    "laugh sing sleep dance smile wait work cook travel walk run swim read write listen study whisper "
    "shout yawn sneeze cough cry argue complain relax exercise practice rest jog hike paint draw knit "
    "sew ski skate drive juggle hum whistle mumble stutter snore dream worry hesitate panic celebrate "
    "volunteer commute daydream gamble gossip grumble joke meditate giggle climb eat lie apologize "
    "shiver tremble wander"
)

STATES = words_in(
    "tired hungry happy sad angry calm busy late sick rich poor famous proud shy lonely bored nervous "
    "quiet polite rude clever curious honest lazy punctual brave jealous cheerful thirsty sleepy careful "
    "careless confident generous grateful greedy healthy helpful kind lucky modest noisy serious strong "
    "stubborn sure talented thoughtful tidy weak wise worried excited friendly furious "
    "anxious ready safe alone"
)

LOOKS = words_in(
    "old young tall short thin blond bearded local foreign retired elegant gentle wealthy mysterious "
    "popular skillful ambitious charming eager ordinary"
)

PLACES = words_in(
    "museum station garden hotel school market library theater bridge hospital office restaurant castle "
    "tower park harbor airport bank bakery factory farm forest fountain gate island kitchen lake mill "
    "palace river shop stadium temple tunnel village"
)
